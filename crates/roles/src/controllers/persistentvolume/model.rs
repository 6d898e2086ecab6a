//! What the binder sees, what it can do, and why it waits.

use std::fmt;
use std::sync::Arc;

use bowline_api::{ObjectKey, PersistentVolume, PersistentVolumeClaim, StorageClass};

/// What is decided at a time: one claim, or one volume by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Claim(ObjectKey),
    Volume(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "claim {key}"),
            Self::Volume(name) => write!(f, "volume {name}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    Claim(ClaimSeen),
    Volume(VolumeSeen),
}

/// A claim and everything that bears on it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSeen {
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume that the claim names. For a complete claim, its absence is confirmed.
    pub named: Option<Arc<PersistentVolume>>,
    /// While the claim names none: volumes that name the claim, and free ones of its class.
    pub candidates: Vec<Arc<PersistentVolume>>,
    /// The object of the class that the claim names.
    pub class: Option<Arc<StorageClass>>,
    pub default_class: Option<String>,
    /// Unscheduled pods that use the claim, sorted.
    pub pods: Vec<String>,
    /// `--enable-dynamic-provisioning`.
    pub provisioning: bool,
}

impl ClaimSeen {
    /// A volume that the decision may be about.
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        use bowline_api::Meta;
        self.named.iter().chain(&self.candidates).find(|volume| volume.name() == name)
    }
}

/// A volume and the claim that it refers to by UID; the absence of that claim is confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeSeen {
    pub volume: Arc<PersistentVolume>,
    pub claim: Option<Arc<PersistentVolumeClaim>>,
}

/// One write each.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Set the claim's `migrated-to` to this driver, or remove it.
    MigrateClaim(Option<&'static str>),
    /// Give a claim that named no class the default one.
    AssignClass(String),
    /// Ask this provisioner for a volume.
    Request {
        provisioner: String,
    },
    /// Bind, first write: the volume refers to the claim.
    Reserve {
        volume: String,
    },
    /// Bind, second write (and repairs).
    MarkBound {
        volume: String,
    },
    /// Bind, third write: the claim names the volume and the link is complete.
    Complete {
        volume: String,
    },
    /// Bind, fourth write: the claim's status shows the volume's.
    MarkClaimBound {
        volume: String,
    },
    MarkClaimPending,
    MarkClaimLost(Loss),
    /// Bring a volume's `migrated-to` and the controller's own finalizer up to date.
    Tidy,
    MarkAvailable,
    MarkReleased,
    MarkFailed(Failure),
    /// Let go of a claim that is bound elsewhere.
    Unbind,
}

/// How a complete claim can lose its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    NoReference,
    NoVolume,
    Misbound,
}

impl Loss {
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoReference | Self::NoVolume => "ClaimLost",
            Self::Misbound => "ClaimMisbound",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReference => {
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            }
            Self::NoVolume => "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            Self::Misbound => "Two claims are bound to the same volume, this one is bound incorrectly",
        })
    }
}

/// Why a released volume cannot be reclaimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// An in-tree plugin made it, and there is none of that name.
    NoPlugin(String),
    /// Nobody marked it as theirs, and its type has no deleter.
    NoDeleter(String),
    NoRecycler,
    UnknownPolicy,
}

impl Failure {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPlugin(_) | Self::NoDeleter(_) => "VolumeFailedDelete",
            Self::NoRecycler => "VolumeFailedRecycle",
            Self::UnknownPolicy => "VolumeUnknownReclaimPolicy",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlugin(name) => write!(f, "no volume plugin matched name: {name}"),
            Self::NoDeleter(volume) => write!(
                f,
                "error getting deleter volume plugin for volume \"{volume}\": no deletable volume plugin matched"
            ),
            Self::NoRecycler => f.write_str("No recycler plugin found for the volume!"),
            Self::UnknownPolicy => f.write_str("Volume has unrecognized PersistentVolumeReclaimPolicy"),
        }
    }
}

/// Why nothing is done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The claim is on its way out and has no volume: it gets none.
    Deleting,
    Consumer,
    Pods(Vec<String>),
    NoVolumeNoClass,
    NoClass(String),
    NoPlugin(String),
    External(String),
    ProvisioningOff,
    NamedMissing(String),
    Mismatch {
        volume: String,
        problem: String,
    },
    Taken(String),
    /// The volume waits for its claim's key to go on.
    ClaimUnbound,
    /// The volume is reserved for a claim of another mode.
    ModeMismatch {
        volume: String,
        claim: String,
    },
    /// The failure is shown; somebody has to act.
    Failed(Failure),
}

/// How an event is filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Normal,
    Warning,
}

impl Why {
    /// Tone and reason of the event that tells people; `None` when upstream says nothing.
    pub fn event(&self) -> Option<(Tone, &'static str)> {
        match self {
            Self::Consumer => Some((Tone::Normal, "WaitForFirstConsumer")),
            Self::Pods(_) => Some((Tone::Normal, "WaitForPodScheduled")),
            Self::NoVolumeNoClass => Some((Tone::Normal, "FailedBinding")),
            Self::NoClass(_) | Self::NoPlugin(_) => Some((Tone::Warning, "ProvisioningFailed")),
            Self::External(_) => Some((Tone::Normal, "ExternalProvisioning")),
            Self::Mismatch { .. } | Self::ModeMismatch { .. } => Some((Tone::Warning, "VolumeMismatch")),
            Self::Taken(_) => Some((Tone::Warning, "FailedBinding")),
            Self::Deleting
            | Self::ProvisioningOff
            | Self::NamedMissing(_)
            | Self::ClaimUnbound
            | Self::Failed(_) => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("the claim is being deleted and gets no volume"),
            Self::Consumer => f.write_str("waiting for first consumer to be created before binding"),
            Self::Pods(pods) => {
                let plural = if pods.len() == 1 { "" } else { "s" };
                write!(f, "waiting for pod{plural} {} to be scheduled", pods.join(","))
            }
            Self::NoVolumeNoClass => {
                f.write_str("no persistent volumes available for this claim and no storage class is set")
            }
            Self::NoClass(name) => write!(f, "storageclass.storage.k8s.io \"{name}\" not found"),
            Self::NoPlugin(name) => write!(f, "no volume plugin matched name: {name}"),
            Self::External(provisioner) => write!(
                f,
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
            ),
            Self::ProvisioningOff => f.write_str("no volume fits and dynamic provisioning is switched off"),
            Self::NamedMissing(volume) => write!(f, "waiting for volume \"{volume}\" to be created"),
            Self::Mismatch { volume, problem } => {
                write!(f, "Cannot bind to requested volume \"{volume}\": {problem}")
            }
            Self::Taken(volume) => write!(f, "volume \"{volume}\" already bound to a different claim."),
            Self::ClaimUnbound => f.write_str("waiting for the claim to be bound"),
            Self::ModeMismatch { claim, .. } => write!(
                f,
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{claim}\" due to incompatible volumeMode."
            ),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}
