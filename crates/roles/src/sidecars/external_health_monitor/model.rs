//! Plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{PersistentVolume, PersistentVolumeClaim};

/// How long a node is not ready before its claims are told, as upstream has it.
pub(super) const NODE_NOT_READY: Duration = Duration::from_secs(300);

/// What is decided on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The driver's whole list; only with LIST_VOLUMES.
    List,
    /// A PersistentVolume, by name.
    Volume(String),
    /// A Node, by name; only with `--enable-node-watcher`.
    Node(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => write!(f, "list"),
            Self::Volume(name) => write!(f, "persistentvolume {name}"),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// What the driver says of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub abnormal: bool,
    pub message: String,
}

/// How far a check of one volume is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reading {
    /// The driver is to be asked; with LIST_VOLUMES only its list answers.
    #[default]
    Missing,
    /// Answered, and not told yet.
    Fresh(Condition),
    /// This check is over.
    Told,
}

/// All that a decision needs.
#[derive(Debug, Clone)]
pub enum Observed {
    List { asked: bool },
    Volume(Box<Volume>),
    Node(Node),
}

#[derive(Debug, Clone)]
pub struct Volume {
    pub object: Arc<PersistentVolume>,
    /// Of our driver, Bound and not being deleted.
    pub checked: bool,
    pub handle: String,
    /// The claim that the volume refers to, if it exists.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    pub reading: Reading,
    /// Whether the driver is asked about each volume, not for a list.
    pub asks_each: bool,
    /// Whether the API server still has our warning about this claim.
    pub warned: bool,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    pub state: NodeState,
    /// Whether its claims were told that it failed.
    pub failed: bool,
    /// Claims of our driver in use there, with the names of the pods.
    pub claims: Vec<(Arc<PersistentVolumeClaim>, Vec<String>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Ready,
    /// For this long, as far as this process saw.
    NotReady(Duration),
    Terminated,
    Deleted,
}

/// One effect each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// ListVolumes, all pages.
    List,
    /// ControllerGetVolume.
    Ask,
    TellAbnormal(String),
    TellNormal,
    /// This check has nothing to tell.
    Settle,
    TellNodeFailed,
    TellNodeRecovered,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A node that may be back soon.
    NotReadyYet,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadyYet => write!(f, "the node is not ready for less than {NODE_NOT_READY:?}"),
        }
    }
}
