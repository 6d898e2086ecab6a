//! What the modify controller sees and does, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_api::{ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};

/// What does not change while the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub driver: String,
    /// `--extra-modify-metadata`.
    pub extra_metadata: bool,
}

/// A claim, and all around it that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub settings: Arc<Settings>,
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume that it names.
    pub volume: Option<Arc<PersistentVolume>>,
    /// The class that the claim names.
    pub wanted: Option<Arc<VolumeAttributesClass>>,
    /// The class that the status works towards.
    pub target: Option<Arc<VolumeAttributesClass>>,
    pub attempt: Attempt,
}

/// What this process knows of its own calls for this claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempt {
    /// No call for this claim can be under way: the last one, if any, had a final answer.
    pub certain: bool,
    /// The class in the status is not tried again yet.
    pub slow: bool,
    /// The driver's last answer, until it is written down.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Modified { target: String },
    Failed { target: String, failure: Failure },
}

/// An answer that is not success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub last: bool,
    pub infeasible: bool,
    pub code: i32,
    /// With code, as events show it.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The class that the claim names is not there.
    MarkPending,
    /// Writes the class to work towards into the status.
    MarkInProgress,
    Modify {
        class: Arc<VolumeAttributesClass>,
    },
    MarkFailed,
    UpdateVolume {
        target: String,
    },
    MarkDone {
        target: String,
    },
    /// The claim names no class any more.
    Cancel,
}

/// Why a volume is not modified now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    VolumeMissing { claim: ObjectKey, volume: String },
    ClassMissing(String),
    Infeasible(ObjectKey),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VolumeMissing { claim, volume } => {
                write!(f, "PV \"{volume}\" bound to pvc \"{claim}\" not found")
            }
            Self::ClassMissing(name) => write!(f, "VAC \"{name}\" does not exist."),
            Self::Infeasible(claim) => write!(
                f,
                "skipping volume modification for pvc {claim}, because modification previously failed with infeasible error"
            ),
        }
    }
}
