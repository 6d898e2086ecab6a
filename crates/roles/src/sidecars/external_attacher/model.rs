//! What the attacher sees and does, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_api::{PersistentVolume, VolumeAttachment};
use bowline_proto::csi::v1::VolumeCapability;
use k8s_openapi::api::core::v1::SecretReference;

/// What this role works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Attachment(String),
    Volume(String),
    /// What the driver says is published where.
    Listing,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment(name) => write!(f, "volumeattachment {name}"),
            Self::Volume(name) => write!(f, "persistentvolume {name}"),
            Self::Listing => f.write_str("published volumes"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Attachment(Box<Attachment>),
    Volume(Volume),
    /// Whether the driver has listed its volumes in this pass.
    Listing {
        listed: bool,
    },
}

/// One attachment of our driver, and all around it that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    pub object: Arc<VolumeAttachment>,
    /// Whether the driver attaches at all (PUBLISH_UNPUBLISH_VOLUME).
    pub driver_publishes: bool,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub guarded: bool,
    /// The node id that its annotation keeps.
    pub noted_node_id: Option<String>,
    /// The volume's handle that its annotation keeps.
    pub noted_handle: Option<String>,
    pub attached: bool,
    pub source: Source,
    /// The driver's id of the node, from its CSINode.
    pub node_id: Option<String>,
    pub answer: Answer,
    /// The driver lists the volume otherwise than the status says: it is asked once more.
    pub forced: bool,
}

/// What is to be attached.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Neither or both of volume name and inline spec.
    Unclear,
    Missing(String),
    /// Not a CSI volume, or one of another driver.
    Foreign(String),
    Volume {
        object: Arc<PersistentVolume>,
        deleting: bool,
        guarded: bool,
        target: Target,
    },
    Inline(Target),
}

/// The volume as the driver is told about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub handle: String,
    pub capability: Result<VolumeCapability, String>,
    pub read_only: bool,
    pub context: BTreeMap<String, String>,
    pub secret: Option<SecretReference>,
}

/// The driver's last word on this attachment, while this process lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer {
    #[default]
    None,
    Published(BTreeMap<String, String>),
    Unpublished,
    /// It does not know the noted node, and another id is registered under the node's name.
    NodeUnknown,
}

/// A volume that may carry our finalizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub object: Arc<PersistentVolume>,
    pub deleting: bool,
    pub guarded: bool,
    /// Attachments of any driver that name it.
    pub attachments: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Keep the volume object while it may be attached.
    GuardVolume,
    /// Finalizer, node id and volume handle on the attachment, in one write.
    Guard {
        node_id: String,
    },
    Publish {
        node_id: String,
    },
    MarkAttached,
    Unpublish {
        node_id: String,
        handle: String,
        secret: Option<SecretReference>,
    },
    Unguard,
    MarkDetached,
    UnguardVolume,
    /// Ask the driver which volumes are published where.
    List,
}

/// Why an attachment cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    SourceUnclear,
    VolumeMissing(String),
    VolumeForeign(String),
    VolumeDeleting(String),
    /// The volume object has another handle than the one that may be published.
    VolumeReplaced {
        noted: String,
        now: String,
    },
    NoCapability(String),
    /// Neither CSINode nor annotation says what the driver calls the node.
    NodeUnknown(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceUnclear => {
                f.write_str("exactly one of inlineVolumeSpec and persistentVolumeName must be set")
            }
            Self::VolumeMissing(name) => write!(f, "persistentvolume \"{name}\" not found"),
            Self::VolumeForeign(name) => {
                write!(f, "persistentvolume \"{name}\" is not a volume of this driver")
            }
            Self::VolumeDeleting(name) => write!(f, "PersistentVolume \"{name}\" is marked for deletion"),
            Self::VolumeReplaced { noted, now } => write!(
                f,
                "volume handle `{noted}` may be attached and the persistentvolume names `{now}` now: delete this attachment to detach `{noted}` first"
            ),
            Self::NoCapability(text) => f.write_str(text),
            Self::NodeUnknown(node) => {
                write!(f, "CSINode {node} does not contain this driver: is it registered on that node?")
            }
        }
    }
}
