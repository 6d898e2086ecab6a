//! What can go wrong with a store.

use std::sync::Arc;

use super::object::Stored;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is not as expected; nothing was written.
    #[error("the object is not at the expected version")]
    Conflict { current: Option<Arc<Stored>> },
    #[error(transparent)]
    Unavailable(Trouble),
}

/// Why a store does not do what it is asked to; each text says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nothing was written: there is no room. Reads go on, and deletes as long as they can.
    #[error("{0}")]
    Full(String),
    /// Nothing was written: the object is larger than the store takes.
    #[error("{0}")]
    TooLarge(String),
    /// Nothing was written; the same may succeed later.
    #[error("{0}")]
    NotWritten(String),
    /// The answer was lost and it could not be found out whether the write landed.
    #[error("{0}; whether the write landed is not known: read the object before you repeat it")]
    Unknown(String),
}

impl From<Trouble> for WriteError {
    fn from(trouble: Trouble) -> Self {
        Self::Unavailable(trouble)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("data directory {dir} is in use by another process{holder}: stop it first")]
    InUse { dir: String, holder: String },
    #[error(
        "{place} was written by a newer version (format {found}, this one reads up to {known}): use that version or another place"
    )]
    Newer { place: String, found: String, known: u32 },
    #[error(
        "data directory {dir} is damaged: {why}. Nothing was changed; restore a backup with `bowline store restore`"
    )]
    Damaged { dir: String, why: String },
    #[error(
        "data directory {dir} has lost a part of its store: {what}. Nothing was changed: put back what is missing; or move {dir}/objects aside and bring a backup back with `bowline store restore`; or go on with what is left with `bowline store accept-loss`"
    )]
    Lost { dir: String, what: String },
    #[error("open {place}: {why}")]
    Broken { place: String, why: String },
    #[error("etcd at {servers}: {why}")]
    Etcd { servers: String, why: String },
}
