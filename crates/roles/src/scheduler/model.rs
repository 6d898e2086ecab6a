//! What the scheduler sees, what it can do, and why it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bowline_api::{CSIStorageCapacity, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};

/// A pod and everything that bears on where it may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub pod: Arc<Pod>,
    /// One per volume of the pod that is a claim, in the pod's order.
    pub claims: Vec<ClaimSeen>,
    /// Every node, by name.
    pub nodes: Vec<NodeSeen>,
    /// CSI volumes that the pod brings along, by driver.
    pub brings: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSeen {
    pub name: String,
    /// The pod owns the claim: another controller makes it.
    pub ephemeral: bool,
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The object of the claim's class.
    pub class: Option<Arc<StorageClass>>,
    /// The volume that the claim names.
    pub volume: Option<Arc<PersistentVolume>>,
    /// While it names none: volumes that name the claim, and free ones of its class.
    pub candidates: Vec<Arc<PersistentVolume>>,
    /// Room as the driver publishes it for this class; `None` when it publishes none.
    pub capacities: Option<Vec<Arc<CSIStorageCapacity>>>,
    /// Another pod that has a node and uses the claim.
    pub other_user: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeSeen {
    pub node: Arc<Node>,
    /// How often a provisioner could not make this pod's volumes there.
    pub given_back: u32,
    /// Pods that it runs or will run.
    pub load: usize,
    /// By driver, for those that the pod needs and that have a limit there.
    pub rooms: BTreeMap<String, Room>,
}

/// How many volumes of a driver a node takes, and which it has or was promised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    pub limit: usize,
    pub used: BTreeSet<String>,
}

/// One write each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Take an existing volume for a claim.
    Reserve {
        claim: String,
        volume: String,
    },
    /// Have the claim's volume made for this node.
    SelectNode {
        claim: String,
        node: String,
    },
    Bind {
        node: String,
    },
    /// Show why the pod has no node.
    MarkUnschedulable {
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Gated,
    Unschedulable(String),
    /// The node is chosen; its volumes are being bound.
    Volumes {
        node: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gated => f.write_str("the pod has scheduling gates"),
            Self::Unschedulable(text) => f.write_str(text),
            Self::Volumes { node } => write!(f, "waiting for volumes to be bound for node \"{node}\""),
        }
    }
}
