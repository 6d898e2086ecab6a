//! What snapshot-controller sees and does, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_api::snapshot::VolumeSnapshotStatus;
use bowline_api::{ObjectKey, PersistentVolume, PersistentVolumeClaim};
use bowline_api::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

/// What this role works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Snapshot(ObjectKey),
    Content(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(key) => write!(f, "volumesnapshot {key}"),
            Self::Content(name) => write!(f, "volumesnapshotcontent {name}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Snapshot(Box<Snapshot>),
    Content(Content),
}

/// What flags decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `--prevent-volume-mode-conversion`
    pub keep_volume_mode: bool,
    /// `--enable-distributed-snapshotting`
    pub distributed: bool,
}

/// One snapshot, and all around it that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub settings: Settings,
    pub object: Arc<VolumeSnapshot>,
    /// The class that it names, if it exists.
    pub class: Option<Arc<VolumeSnapshotClass>>,
    /// Classes with the annotation of a default class, of whatever driver.
    pub defaults: Vec<Arc<VolumeSnapshotClass>>,
    /// The claim that it is taken of.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// Whether another snapshot of the claim is not ready.
    pub claim_used: bool,
    /// The volume that the claim names.
    pub volume: Option<Arc<PersistentVolume>>,
    /// In distributed mode: the first node that reaches the volume.
    pub node: Option<String>,
    /// The content that it has, or should have.
    pub content: Option<Arc<VolumeSnapshotContent>>,
    /// A claim that waits to be restored from it.
    pub restoring: Option<String>,
    /// The content of a create whose answer was lost.
    pub unanswered: Option<Arc<VolumeSnapshotContent>>,
}

/// One content. Only its finalizer is this role's concern; the rest follows from its snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub object: Arc<VolumeSnapshotContent>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    SetDefaultClass(String),
    /// Keep the claim while its snapshot is taken.
    GuardClaim,
    ReleaseClaim,
    AddFinalizers(Vec<&'static str>),
    RemoveFinalizers(Vec<&'static str>),
    CreateContent(Box<VolumeSnapshotContent>),
    /// Write the snapshot's UID, and its class if the content has none, into a content that exists already.
    Bind {
        class: Option<String>,
    },
    UpdateStatus(Box<VolumeSnapshotStatus>),
    /// Tell people what is wrong, in the status and an event.
    Report(Problem),
    MarkBeingDeleted,
    DeleteContent,
    GuardContent,
}

/// What is wrong with a snapshot, under the reason of upstream's event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
    /// Whether it is no longer ready, or not known to be.
    pub not_ready: bool,
}

/// Why a key waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Problem(Problem),
    /// It may not be deleted yet.
    DeletePending(String),
    /// csi-snapshotter has not said yet that it is ready.
    NotReady,
    /// The content is still there.
    ContentDeleting,
    /// The group that it belongs to has not named its content yet.
    NoContentYet,
    InvalidContent,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => f.write_str(&problem.message),
            Self::DeletePending(text) => f.write_str(text),
            Self::NotReady => f.write_str("the driver has not finished the snapshot"),
            Self::ContentDeleting => f.write_str("its content is being deleted"),
            Self::NoContentYet => f.write_str("its group has not named its content yet"),
            Self::InvalidContent => {
                f.write_str("Exactly one of VolumeHandle and SnapshotHandle should be specified")
            }
        }
    }
}
