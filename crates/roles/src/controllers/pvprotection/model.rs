//! What the protection of volumes sees, does and waits for.

use std::fmt;
use std::sync::Arc;

use bowline_api::PersistentVolume;

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub volume: Arc<PersistentVolume>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    AddFinalizer,
    RemoveFinalizer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Bound,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound => f.write_str("the volume is bound: it goes when its claim has gone"),
        }
    }
}
