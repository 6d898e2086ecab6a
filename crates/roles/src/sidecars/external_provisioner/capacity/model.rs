//! What the publisher of capacities sees and does, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bowline_api::{CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Topology key → value; empty for a driver without topology.
pub type Segment = BTreeMap<String, String>;

/// What this role works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The room of a class in a segment.
    Pair { class: String, segment: Segment },
    /// An object of ours that stands for no segment, by name.
    Stray(String),
    /// Which segments there are.
    Topology,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { class, segment } => write!(f, "capacity of storageclass {class} in {segment:?}"),
            Self::Stray(name) => write!(f, "csistoragecapacity {name}"),
            Self::Topology => f.write_str("topology segments"),
        }
    }
}

/// Fixed while the process lives.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub driver: String,
    /// The value of the label that tells these objects from those of other provisioners.
    pub managed_by: String,
    pub namespace: String,
    pub owner: Option<OwnerReference>,
    /// Whether classes that bind immediately get objects, too.
    pub immediate: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Pair(Box<Pair>),
    Stray(Arc<CSIStorageCapacity>),
    Topology { known: BTreeSet<Segment>, now: BTreeSet<Segment> },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub settings: Arc<Settings>,
    pub class: Option<Arc<StorageClass>>,
    /// Whether the topology has the segment.
    pub segment_exists: bool,
    /// Our objects for this pair.
    pub objects: Vec<Arc<CSIStorageCapacity>>,
    /// The driver's answer; `None` if it is to be asked.
    pub measured: Option<Measured>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    pub bytes: i64,
    pub largest_volume: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Ask,
    Create(Measured),
    Update(Box<CSIStorageCapacity>),
    Delete(Arc<CSIStorageCapacity>),
    /// Take over the segments that there are now.
    Adopt,
}
