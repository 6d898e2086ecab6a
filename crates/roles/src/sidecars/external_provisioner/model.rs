//! What the provisioner sees and does, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use bowline_api::{CSINode, Lease, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, StorageClass};
use bowline_machinery::capability::SingleNode;
use bowline_proto::csi::v1::{CreateVolumeRequest, GetCapacityRequest};
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde::{Deserialize, Serialize};

/// What this role works on: claims by UID, so that a namesake is another claim; volumes by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Claim(String),
    Volume(String),
    /// A claim that others are cloned from.
    Source(ObjectKey),
    /// A snapshot that volumes are restored from.
    Snapshot(ObjectKey),
    /// Snapshots that a finalizer may have been left on.
    Snapshots,
    /// The calls that earlier processes stored.
    Intents,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(uid) => write!(f, "persistentvolumeclaim {uid}"),
            Self::Volume(name) => write!(f, "persistentvolume {name}"),
            Self::Source(key) => write!(f, "source persistentvolumeclaim {key}"),
            Self::Snapshot(key) => write!(f, "source volumesnapshot {key}"),
            Self::Snapshots => f.write_str("snapshots with a finalizer"),
            Self::Intents => f.write_str("stored intents"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Claim(Box<Claim>),
    Volume(Box<Volume>),
    Source(Box<SourceClaim>),
    Snapshot(Box<SourceSnapshot>),
    /// Snapshots with our finalizer, and whether they were handed on in this pass.
    Snapshots {
        left: Vec<ObjectKey>,
        handed_on: bool,
    },
    /// Intents of other processes that this one does not know yet.
    Intents(Vec<Stored>),
    /// Intents cannot be stored here, so there are none to take over: why.
    Unstorable(String),
}

/// The driver and the flags: fixed while the process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub driver: String,
    /// CONTROLLER_SERVICE.
    pub controller: bool,
    /// CREATE_DELETE_VOLUME.
    pub creates: bool,
    /// CREATE_DELETE_SNAPSHOT.
    pub restores: bool,
    /// CLONE_VOLUME.
    pub clones: bool,
    /// MODIFY_VOLUME.
    pub modifies: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub topology: bool,
    pub single_node: SingleNode,
    /// Which process made a volume, for the volume's attributes.
    pub identity: String,
    pub naming: Naming,
    pub strict_topology: bool,
    pub immediate_topology: bool,
    pub extra_create_metadata: bool,
    pub controller_publish_readonly: bool,
    pub default_fstype: String,
    pub prevent_mode_conversion: bool,
    /// Set: only this node is served.
    pub node: Option<OwnNode>,
}

/// The node that a provisioner serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnNode {
    pub name: String,
    /// Where the driver is.
    pub segment: BTreeMap<String, String>,
    /// Whether it asks for claims that name no node.
    pub immediate_binding: bool,
}

/// How volumes are named. It is stored with each call: the flags may change before its end is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Naming {
    pub prefix: String,
    /// Characters of the claim's UID, dashes removed; all of it as it is if none.
    pub uuid_length: Option<usize>,
}

/// A claim that exists, or is remembered because a volume may exist for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub settings: Arc<Settings>,
    pub object: Arc<PersistentVolumeClaim>,
    pub exists: bool,
    pub class: Option<Arc<StorageClass>>,
    /// What the claim's `volumeAttributesClassName` names.
    pub attributes: Option<VolumeAttributesClass>,
    /// What the claim's data source names.
    pub source: Source,
    /// Whether the volume object is there already.
    pub volume_exists: bool,
    pub cluster: Cluster,
    pub attempt: Attempt,
}

/// What a volume starts from, as far as it was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Source {
    /// Nothing, or what a populator knows.
    #[default]
    None,
    Claim {
        claim: Option<Arc<PersistentVolumeClaim>>,
        volume: Option<Arc<PersistentVolume>>,
    },
    Snapshot {
        snapshot: Option<Arc<VolumeSnapshot>>,
        content: Option<Arc<VolumeSnapshotContent>>,
        /// False where this process may not update snapshots: it does without the finalizer, as upstream does.
        may_protect: bool,
    },
}

/// A snapshot with our finalizer.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSnapshot {
    pub object: Arc<VolumeSnapshot>,
    /// It is another driver's, whose provisioner takes care of it.
    pub foreign: bool,
    /// A claim that is still being restored from it.
    pub restore: Option<String>,
    pub intents_read: bool,
}

/// A claim that others are, or were, cloned from.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceClaim {
    pub object: Arc<PersistentVolumeClaim>,
    /// Its volume is another driver's, whose provisioner takes care of it.
    pub foreign: bool,
    /// A claim that is still being cloned from it.
    pub clone: Option<String>,
    /// Whether what earlier processes stored has been read.
    pub intents_read: bool,
}

/// What topology is chosen from; empty for drivers without.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    pub csi_nodes: Vec<Arc<CSINode>>,
    pub nodes: Vec<Arc<Node>>,
}

/// What this process remembers of its calls for one claim.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The call as it is stored: repeats are identical, whatever becomes of claim, class and nodes.
    pub stored: Option<Stored>,
    /// It was sent, by this process or maybe by an earlier one, and no answer says what became of it.
    pub open: bool,
    /// Made, and its object not saved yet.
    pub unsaved: Option<Arc<PersistentVolume>>,
    /// Made, but not as asked: to be deleted.
    pub unusable: Option<Unusable>,
    /// The driver's final refusal, which people were not told yet.
    pub refused: Option<String>,
    /// The driver has no room at the selected node.
    pub exhausted: Option<String>,
    /// The driver called the request invalid a short while ago.
    pub slow: bool,
    pub told_populator: bool,
    pub bidding: Bidding,
}

/// How far this node is with asking for a claim that names no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bidding {
    /// Its delay is not over.
    #[default]
    Waiting,
    Due,
    Room,
}

/// A CreateVolume with all that is needed to finish it without its claim and its class.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// The parts that the volume's object is made from.
    pub claim: Arc<PersistentVolumeClaim>,
    pub class: Arc<StorageClass>,
    pub creation: Creation,
}

/// An intent and the object that keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub intent: Arc<Intent>,
    /// `None` where it could not be stored and ends with the process.
    pub lease: Option<Arc<Lease>>,
}

/// A volume that the driver made smaller than asked, or without the content asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Unusable {
    pub handle: String,
    pub secret: Option<SecretReference>,
    pub why: String,
}

/// A volume that may be ours to keep or delete.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub settings: Arc<Settings>,
    pub object: Arc<PersistentVolume>,
    pub class: Option<Arc<StorageClass>>,
    /// A node that an attachment names, attached or not.
    pub attached_to: Option<String>,
    /// DeleteVolume succeeded.
    pub deleted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Store a call before it is sent.
    Store(Box<Intent>),
    Create(Arc<Intent>),
    /// Remove what was stored: its end is known, or it was never sent.
    Forget,
    /// Take over what earlier processes stored.
    Adopt,
    /// Store the object of a volume that was made.
    Save,
    /// Delete a volume that came out wrong.
    Discard {
        handle: String,
        secret: Option<SecretReference>,
    },
    /// Ask the scheduler for another node.
    Reschedule(Why),
    TellPopulator,
    /// Ask the driver whether it has room for a claim that names no node.
    AskRoom {
        requests: Vec<GetCapacityRequest>,
        needed: i64,
    },
    /// Ask for that claim.
    SelectNode(String),
    /// Put a finalizer on what the volume is copied from, before the copy begins.
    ProtectSource,
    /// Take it off: nothing is copied from there any more.
    ReleaseSource,
    ReleaseSnapshot,
    /// Look at each snapshot that a finalizer may have been left on.
    HandOnSnapshots,
    AddFinalizer,
    RemoveFinalizer,
    Delete {
        handle: String,
        secret: Option<SecretReference>,
    },
    DeleteObject,
}

/// One CreateVolume, complete but for its secrets, which are read at the last moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Creation {
    pub request: CreateVolumeRequest,
    pub secrets: Secrets,
    pub fs_type: String,
}

/// Secrets that a class asks for, by purpose.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secrets {
    pub provisioner: Option<SecretReference>,
    pub controller_publish: Option<SecretReference>,
    pub node_stage: Option<SecretReference>,
    pub node_publish: Option<SecretReference>,
    pub controller_expand: Option<SecretReference>,
    pub node_expand: Option<SecretReference>,
    pub controller_modify: Option<SecretReference>,
}

/// Why nothing is done, or an attempt fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    ClassMissing(String),
    NoNodeSelected,
    /// The class does not allow volumes on this node.
    NotHere,
    /// The delay before this node asks for the claim is not over.
    Bidding,
    /// The driver called the request invalid; it is asked again later.
    Slow,
    /// A populator fills this claim.
    Populator(String),
    /// What the volume is copied from could be deleted meanwhile.
    Unprotected,
    /// This claim is still being cloned.
    Cloning(String),
    /// This claim is still being restored.
    Restoring(String),
    /// What earlier processes stored has not been read.
    IntentsUnread,
    /// The selected node has no CSINode.
    NodeMissing(String),
    Exhausted(String),
    /// The driver's final refusal.
    Refused(String),
    StillAttached {
        volume: String,
        node: String,
    },
    Invalid(String),
    /// Intents cannot be stored.
    Unstorable(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClassMissing(class) => write!(f, "storageclass.storage.k8s.io \"{class}\" not found"),
            Self::NoNodeSelected => f.write_str("the scheduler has not selected a node yet"),
            Self::NotHere => f.write_str("the class does not allow volumes on this node"),
            Self::Bidding => f.write_str("another node may take this claim first"),
            Self::Slow => f.write_str("the driver called the request invalid a short while ago"),
            Self::Populator(kind) => write!(f, "data source of kind {kind} is left to a populator"),
            Self::Unprotected => f.write_str("the data source has no finalizer yet"),
            Self::Cloning(clone) => write!(f, "PVC '{clone}' is in 'Pending' state, cloning in progress"),
            Self::Restoring(claim) => write!(f, "PVC '{claim}' is in 'Pending' state, restore in progress"),
            Self::IntentsUnread => f.write_str("the calls of earlier processes are not read yet"),
            Self::NodeMissing(node) => {
                write!(f, "error generating accessibility requirements: csinode \"{node}\" not found")
            }
            Self::StillAttached { volume, node } => {
                write!(f, "persistentvolume {volume} is still attached to node {node}")
            }
            Self::Exhausted(text) | Self::Refused(text) | Self::Invalid(text) | Self::Unstorable(text) => {
                f.write_str(text)
            }
        }
    }
}
