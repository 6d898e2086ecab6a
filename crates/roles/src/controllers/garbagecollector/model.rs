//! What the garbage collector sees and does, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_api::keys;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// A kind as the server names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
}

/// One object, and no other that ever had its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub kind: Arc<Kind>,
    pub namespace: String,
    pub name: String,
    pub uid: Arc<str>,
}

/// As upstream writes it.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, uid } = self;
        write!(f, "[{}/{}, namespace: {namespace}, name: {name}, uid: {uid}]", kind.api_version, kind.kind)
    }
}

/// What is known of an object from its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub identity: Arc<Identity>,
    pub version: u64,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    pub owners: Vec<OwnerReference>,
}

impl Node {
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// Deleted, and kept until its blocking dependents are gone.
    pub fn in_foreground(&self) -> bool {
        self.deleting && self.has(keys::FOREGROUND_DELETION)
    }

    /// Deleted, and kept until its dependents are free of it.
    pub fn orphaning(&self) -> bool {
        self.deleting && self.has(keys::ORPHAN_DEPENDENTS)
    }

    /// Kept for the garbage collector to let it go.
    pub fn waits(&self) -> bool {
        self.in_foreground() || self.orphaning()
    }

    pub fn refers_to(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner.uid == uid)
    }

    pub fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
    }
}

/// An object that has owners, or that is kept for its dependents' sake.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub node: Node,
    pub owners: Vec<Referred>,
    pub dependents: Dependents,
    /// Whether every kind has been listed, so that a dependent that is not known is not there.
    pub complete: bool,
    pub stragglers: Stragglers,
}

/// A reference and what became of the object it means.
#[derive(Debug, Clone, PartialEq)]
pub struct Referred {
    pub reference: OwnerReference,
    pub owner: Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It is there. A deletion that something else holds up changes nothing yet.
    Solid,
    /// The API server says that this very object is not there.
    Gone,
    /// The same, but an object of that UID is in another namespace, where an owner cannot be.
    Elsewhere,
    /// The API server says that it waits for its dependents to go.
    Foreground,
    /// The API server says that it waits for its dependents to be free of it.
    Orphaning,
    /// A namespaced owner of an object without a namespace: there is nowhere to look.
    Invalid,
    /// Nobody serves this kind now; what it is about cannot be known.
    UnknownKind,
}

/// Objects that refer to an object, as the watches know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dependents {
    pub any: bool,
    /// Whose reference says `blockOwnerDeletion`.
    pub blocking: usize,
    /// Not on their way out themselves.
    pub staying: usize,
    /// One of them waits for its own dependents: a circle, if this object is one of those.
    pub in_foreground: bool,
}

/// Dependents that a live list found.
#[derive(Debug, Clone, PartialEq)]
pub enum Stragglers {
    /// Nobody asked, because the answer would change nothing.
    Unasked,
    None,
    Found(Vec<Node>),
}

/// What a deletion does to the dependents of what it deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Delete(Policy),
    /// Removes the references to these owners, by UID.
    Disown(Vec<String>),
    /// Makes every reference one that does not block its owner: the way out of a circle.
    Unblock,
    RemoveFinalizer(&'static str),
    /// Takes the stragglers into the graph, which gives each of them its turn.
    TakeIn,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    Blocked(usize),
    Unorphaned(usize),
    Incomplete,
    InvalidNamespace(Box<OwnerReference>),
    UnknownKind { api_version: String, kind: String },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked(count) => write!(f, "{count} dependents that block the deletion are still there"),
            Self::Unorphaned(count) => write!(f, "{count} dependents still refer to the object"),
            Self::Incomplete => f.write_str("not every kind has been listed yet"),
            Self::InvalidNamespace(owner) => {
                write!(f, "owner {} {:?} has a namespace, its dependent has none", owner.kind, owner.name)
            }
            Self::UnknownKind { api_version, kind } => {
                write!(f, "nobody serves {api_version} {kind}, the kind of an owner")
            }
        }
    }
}
