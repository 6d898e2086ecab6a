//! What the protection of claims sees, does and waits for.

use std::fmt;
use std::sync::Arc;

use bowline_api::{PersistentVolumeClaim, Pod};

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub claim: Arc<PersistentVolumeClaim>,
    pub usage: Usage,
}

/// Who uses a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Usage {
    /// Not asked: the claim is not being deleted, or nothing guards it.
    Unasked,
    /// A pod that has a node.
    Pod(String),
    /// One that the API server tells of and the cache has not heard of yet.
    OnlyLive(Arc<Pod>),
    /// No pod, says the API server itself.
    Unused,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    AddFinalizer,
    RemoveFinalizer,
    /// Tells the cache of a user, so that its end is news and wakes the claim.
    TakeIn(Arc<Pod>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Used(String),
    /// It was not looked for yet.
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
