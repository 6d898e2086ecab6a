//! What the controller sees of one volume, and does about it, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Pod, VolumeAttachment};

/// What is worked on: a volume that one node may have, as a whole; of a shared one, each node by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `kubernetes.io/csi/<driver>^<handle>`.
    pub volume: String,
    pub node: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{} on {node}", self.volume),
            None => f.write_str(&self.volume),
        }
    }
}

/// One volume on all nodes that have to do with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// `kubernetes.io/csi/<driver>^<handle>`.
    pub key: String,
    /// Whether several nodes may have it at once.
    pub shared: bool,
    /// How long an unready node keeps what nobody wants; `None`: for ever.
    pub force_after: Option<Duration>,
    pub nodes: BTreeMap<String, OnNode>,
}

/// The volume as seen from one node.
#[derive(Debug, Clone, PartialEq)]
pub struct OnNode {
    /// Name of the volume object that pods or attachment here refer to; empty when it is gone.
    pub volume: String,
    pub node: NodeState,
    /// Pods that want it here, ordered by namespace and name.
    pub pods: Vec<Arc<Pod>>,
    pub attachment: Option<Attachment>,
    pub report: Report,
    /// Whether the node may have it mounted.
    pub in_use: bool,
    /// How long nobody has wanted it, once that is counted.
    pub unwanted_for: Option<Duration>,
    /// Whether pods were told that another node has it.
    pub told_waiting: bool,
    /// Whether pods are still to be told that it is attached.
    pub tell_attached: bool,
    /// The driver's error, when pods have not been told of it yet.
    pub untold_error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Gone,
    /// Its kubelet attaches by itself.
    Unmanaged,
    Managed {
        ready: bool,
        out_of_service: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    pub object: Arc<VolumeAttachment>,
    /// Whether its name is the one that this controller gives.
    pub ours: bool,
    pub deleting: bool,
    pub attached: bool,
}

/// Whether `volumesAttached` of the node names the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    No,
    Yes,
    /// A report was sent and its answer lost: it may still arrive, until something else is written to the node.
    Unsure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Create the attachment.
    Attach {
        node: String,
    },
    /// Name the volume in `volumesAttached`.
    Report {
        node: String,
    },
    /// Take it out of `volumesAttached`.
    Unreport {
        node: String,
    },
    /// Delete the attachment.
    Detach {
        node: String,
    },
    /// Begin to count how long nobody wants it.
    StartTimer {
        node: String,
    },
    /// It is wanted again: the next time is counted from its beginning.
    StopTimer {
        node: String,
    },
    TellAttached {
        node: String,
    },
    TellFailed {
        node: String,
        error: String,
    },
    TellWaiting {
        node: String,
        why: Why,
    },
}

/// Why nothing can be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The driver works on it.
    Attaching {
        node: String,
    },
    /// The attachment is being deleted and has to go first.
    Detaching {
        node: String,
    },
    /// Nobody wants it, but the node may have it mounted.
    InUse {
        node: String,
    },
    NodeGone {
        node: String,
    },
    /// Somebody else's attachment.
    Foreign {
        attachment: String,
    },
    Unsettled {
        node: String,
    },
    /// Another node has a volume that only one may have.
    Exclusive {
        volume: String,
        pods: Vec<String>,
        pods_elsewhere: usize,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attaching { node } => write!(f, "the driver is attaching it to {node}"),
            Self::Detaching { node } => write!(f, "the driver is detaching it from {node}"),
            Self::InUse { node } => write!(f, "{node} still lists it in volumesInUse"),
            Self::NodeGone { node } => write!(f, "node {node} is gone"),
            Self::Foreign { attachment } => write!(f, "attachment {attachment} belongs to somebody else"),
            Self::Unsettled { node } => write!(f, "an earlier write to {node} may still arrive"),
            Self::Exclusive { volume, pods, pods_elsewhere } => {
                write!(f, "Waiting for detach for volume \"{volume}\" ")?;
                match (pods.is_empty(), *pods_elsewhere) {
                    (true, 0) => f.write_str(
                        "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node",
                    ),
                    (true, n) => write!(f, "Volume is already used by {n} pod(s) in different namespaces"),
                    (false, 0) => write!(f, "Volume is already used by pod(s) {}", pods.join(", ")),
                    (false, n) => write!(
                        f,
                        "Volume is already used by pod(s) {} and {n} pod(s) in different namespaces",
                        pods.join(", ")
                    ),
                }
            }
        }
    }
}
