//! What the expansion controller sees and does, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_api::{ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub use super::super::abilities::Expansion;

/// What does not change while the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub driver: String,
    pub expansion: Expansion,
}

/// A claim, and all around it that matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub settings: Arc<Settings>,
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume that it names.
    pub volume: Option<Arc<PersistentVolume>>,
    /// A pod that uses it and has not run to its end. Not looked for without `--handle-volume-inuse-error`.
    pub user: Option<Arc<Pod>>,
    pub attempt: Attempt,
}

/// What this process knows of its own calls for this claim.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The last call ended with a final error: its size need not be pursued.
    pub refused: bool,
    /// The last call was refused because the volume is in use.
    pub offline_only: bool,
    /// The size in the claim's status is not tried again yet.
    pub slow: bool,
    /// The driver's last answer, until it is written down.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Expanded {
        /// The size that was asked for.
        target: Quantity,
        /// The size that the driver confirmed.
        size: Quantity,
        /// Whether the node has to do its part.
        node: bool,
    },
    Refused {
        target: Quantity,
        /// Whether this size can never be had.
        infeasible: bool,
        code: i32,
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Writes the size to work towards into the status. `fresh`: it is another one than the status has.
    Mark { target: Quantity, fresh: bool },
    /// Asks the driver.
    Expand { target: Quantity },
    /// Writes a final error into the status.
    MarkRefused,
    /// Writes the confirmed size into the volume.
    UpdateVolume { size: Quantity },
    /// Hands over to the kubelet.
    MarkNodePending,
    /// Writes the confirmed size into the claim.
    MarkDone { size: Quantity },
}

/// Why a claim is not expanded now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    VolumeMissing {
        claim: ObjectKey,
        volume: String,
    },
    /// A volume of an in-tree plugin that our driver took over.
    InTree {
        claim: ObjectKey,
        driver: String,
    },
    BadQuantity(ObjectKey),
    Infeasible(ObjectKey),
    InUse {
        claim: ObjectKey,
        driver: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VolumeMissing { claim, volume } => {
                write!(f, "PV \"{volume}\" bound to pvc \"{claim}\" not found")
            }
            Self::InTree { claim, driver } => write!(
                f,
                "Unable to expand {claim}: its volume is of an in-tree plugin and is not translated for CSI driver {driver}; use upstream's csi-resizer for it"
            ),
            Self::BadQuantity(claim) => {
                write!(f, "a size of claim {claim} or of its volume is not a quantity")
            }
            Self::Infeasible(claim) => write!(
                f,
                "skipping volume expansion for pvc {claim}, because expansion previously failed with infeasible error"
            ),
            Self::InUse { claim, driver } => write!(
                f,
                "Unable to expand {claim} because CSI driver {driver} only supports offline expansion and volume is currently in-use"
            ),
        }
    }
}
