//! What the volume manager sees, does and says about one volume.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{CSIDriver, PersistentVolume, PersistentVolumeClaim, Pod};

use crate::kubelet::Reported;

/// One publication of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub pod_uid: String,
    /// The volume's name in paths: that of the PersistentVolume.
    pub spec_name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Filesystem,
    Block,
}

/// Where a volume is staged. Filesystems: by handle; devices: by the volume's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Staging {
    Filesystem,
    Block(String),
}

impl Staging {
    pub fn of(target: &Target, mode: Mode) -> Self {
        match mode {
            Mode::Filesystem => Self::Filesystem,
            Mode::Block => Self::Block(target.spec_name.clone()),
        }
    }
}

/// Whether a stage or publication is there. Uncertain counts as there for taking down, and as not there for use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    #[default]
    Absent,
    /// A call was made whose answer is not known; only its repeat or its inverse clears this.
    Uncertain,
    /// Published, but smaller than it should be: containers may not use it before it is expanded.
    Unexpanded,
    Present,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Mounted,
    /// The pod is ending, but containers of it may still run.
    AsItIs,
    Gone,
}

/// A publication as it is and as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    pub want: Want,
    pub mode: Mode,
    pub read_only: bool,
    pub presence: Presence,
    /// Failed attempts in a row: others go first.
    pub failures: u32,
    /// When the driver is to be told of the pod again, if it asks for that.
    pub republish_at: Option<Duration>,
    /// The volume's name in the pod.
    pub volume: String,
    /// Since when the pod waits for it.
    pub since: Option<Duration>,
    /// What the pod was last told about it.
    pub reported: Option<Reported>,
    /// When the attachment was last looked at because it does not come.
    pub limit_checked: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverSeen {
    /// Not registered; always for now, never for good.
    Missing {
        since: Duration,
    },
    Registered {
        stages: bool,
        expands: bool,
    },
}

/// How large the volume of a claim is.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSeen {
    pub claim: Arc<PersistentVolumeClaim>,
    /// Bytes that this node knows the volume to have.
    pub known: i64,
    /// The driver does not expand the volume while it is in use; until it is mounted again it is not asked.
    pub in_use_error: bool,
    /// How the last NodeExpandVolume ended that the claim's status does not show yet.
    pub ended: Option<Expanded>,
    /// Failed attempts in a row: other work goes first.
    pub failures: u32,
}

/// How NodeExpandVolume ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// What was asked for.
    pub bytes: i64,
    pub failure: Option<ExpandFailure>,
}

/// A final error of NodeExpandVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandFailure {
    pub code: i32,
    pub message: String,
    /// No repeat will succeed: the controller may choose another size.
    pub infeasible: bool,
}

/// How far the hand-over from the attach/detach controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachSeen {
    NotRequired,
    /// Not in our list of volumes in use.
    NotListed,
    /// Listed, but the API server has not confirmed it.
    NotAccepted,
    NotInNodeStatus,
    /// According to the cache, which may be behind: each call to the driver asks the API server first.
    Attached,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The unique volume name.
    pub volume: String,
    pub driver_name: String,
    pub handle: String,
    /// One pod describes it itself: nothing is attached or staged.
    pub inline: bool,
    /// The machine's uptime, as all times here.
    pub now: Duration,
    pub driver: DriverSeen,
    pub attach: AttachSeen,
    /// Containers of an earlier process are known, so that what nobody needs may go.
    pub may_unmount: bool,
    pub needs: BTreeMap<Target, Need>,
    pub stages: BTreeMap<Staging, Presence>,
    /// Volumes that this node cannot reach, by their name in paths.
    pub unreachable: Vec<String>,
    pub sources: BTreeMap<String, Arc<PersistentVolume>>,
    /// By the volume's name in paths.
    pub sizes: BTreeMap<String, SizeSeen>,
    pub pods: BTreeMap<String, Arc<Pod>>,
    pub csi_driver: Option<Arc<CSIDriver>>,
    /// What the node was last told about it.
    pub reported: Option<Reported>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    ListInUse,
    Stage(Target),
    Publish(Target),
    /// NodePublishVolume again, for a pod that uses the volume.
    Republish(Target),
    Unpublish(Target),
    Unstage(Staging),
    /// Writes into the claim's status that this node expands the volume.
    BeginExpand(Target),
    /// NodeExpandVolume, to so many bytes.
    Expand(Target, i64),
    /// Writes the new size into the claim's status.
    FinishExpand(Target),
    /// Writes into the claim's status why the volume could not be expanded.
    FailExpand(Target),
    /// Nothing is left to expand: the size is taken over, and containers may use the volume.
    Settle(Target),
    /// The same, but the volume would have to be expanded and the pod mounts it read-only.
    SettleReadOnly(Target),
    /// Looks whether the driver has said that it can attach no more volumes to this node.
    CheckAttachLimit(Target),
    /// Tells a pod what holds its volume up.
    Report(Target, String),
    /// Tells the node what holds up a volume that no pod has any more.
    ReportNode(String),
    /// Nothing of the volume is left here.
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    NotAccepted,
    NotInNodeStatus(String),
    DriverMissing(String),
    /// As above, for so short a time that nobody needs to know; looked at again then.
    DriverStarting(Duration),
    Blocked(String),
    InUse,
    NotCounted,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAccepted => f.write_str("volume is not yet reported in use"),
            Self::NotInNodeStatus(name) => write!(f, "volume {name} is not yet in node's status"),
            Self::DriverMissing(driver) => {
                write!(f, "driver name {driver} not found in the list of registered CSI drivers")
            }
            Self::DriverStarting(until) => {
                write!(f, "driver has not registered yet; reported at uptime {until:?}")
            }
            Self::Blocked(text) => f.write_str(text),
            Self::InUse => f.write_str("containers may still use the volume"),
            Self::NotCounted => f.write_str("containers of an earlier process are not known yet"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
