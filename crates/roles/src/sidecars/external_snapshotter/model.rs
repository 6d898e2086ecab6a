//! What csi-snapshotter sees and does, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_api::snapshot::VolumeSnapshotContentStatus;
use bowline_api::{VolumeSnapshotClass, VolumeSnapshotContent};
use bowline_proto::csi::v1::CreateSnapshotRequest;
use k8s_openapi::api::core::v1::SecretReference;

/// The name of a content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub String);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volumesnapshotcontent {}", self.0)
    }
}

/// What flags and the driver decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub driver: String,
    /// LIST_SNAPSHOTS.
    pub lists: bool,
    /// `--snapshot-name-prefix`
    pub prefix: String,
    /// `--snapshot-name-uuid-length`; none is all of it, as it is.
    pub uuid_length: Option<usize>,
    /// `--extra-create-metadata`
    pub extra_create_metadata: bool,
}

/// One content of our driver, and all around it that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub settings: Arc<Settings>,
    pub object: Arc<VolumeSnapshotContent>,
    /// The class that it names, if it exists.
    pub class: Option<Arc<VolumeSnapshotClass>>,
    pub answer: Answer,
}

/// The driver's last word on this content, while this process lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer {
    /// Nothing, or it is time to ask again.
    #[default]
    None,
    Reported(Report),
    /// CreateSnapshot was refused for good, with this text.
    Refused(String),
    Deleted,
}

/// A snapshot as the driver described it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    pub handle: String,
    /// Nanoseconds since 1970.
    pub creation_time: i64,
    /// Bytes; 0 is unknown.
    pub size: i64,
    pub ready: bool,
    pub group_handle: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// From here on a snapshot may exist.
    MarkBeingCreated,
    Create {
        request: Box<CreateSnapshotRequest>,
        secret: Option<SecretReference>,
    },
    UnmarkBeingCreated,
    List {
        handle: String,
        secret: Option<SecretReference>,
    },
    /// The driver cannot list snapshots: one that exists counts as ready.
    AssumeReady {
        handle: String,
    },
    SaveStatus(Box<VolumeSnapshotContentStatus>),
    Delete {
        handle: String,
        secret: Option<SecretReference>,
    },
    ClearStatus,
    RemoveFinalizer,
}

/// Why a content waits, or cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    NotReady,
    /// A member of a group whose handles are not known yet.
    NoHandles,
    ClassMissing(String),
    NoClass(String),
    NoUid,
    Secret(String),
    Parameters(String),
    Refused(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("the driver has not finished the snapshot"),
            Self::NoHandles => f.write_str("the snapshots of its group are not known yet"),
            Self::ClassMissing(name) => {
                write!(f, "volumesnapshotclass.snapshot.storage.k8s.io \"{name}\" not found")
            }
            Self::NoClass(name) => write!(f, "failed to take snapshot {name} without a snapshot class"),
            Self::NoUid => f.write_str("corrupted snapshot object, it is missing UID"),
            Self::Secret(text) | Self::Refused(text) => f.write_str(text),
            Self::Parameters(text) => write!(f, "failed to remove CSI Parameters of prefixed keys: {text}"),
        }
    }
}
