//! What the protection of claims sees, does and waits for.

use std::fmt;
use std::sync::Arc;

use bowline_api::PersistentVolumeClaim;

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub claim: Arc<PersistentVolumeClaim>,
    pub usage: Usage,
}

/// Who uses a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// Not asked: the claim is not being deleted, or nothing guards it.
    Unasked,
    /// A pod that has a node.
    Pod(String),
    /// Nobody, says the API server itself.
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    AddFinalizer,
    RemoveFinalizer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Used(String),
    /// Nobody has looked yet.
    Unasked,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used(pod) => write!(f, "pod \"{pod}\" uses the claim: it goes when the pod has gone"),
            Self::Unasked => f.write_str("not known yet who uses the claim"),
        }
    }
}
