//! What is known about the statistics of one volume of one pod.

use std::fmt;
use std::time::Duration;

use crate::kubelet::volumemanager::MountedVolume;

/// Upstream's `volumeStatsAggPeriod`.
pub const PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub key: String,
    /// The machine's uptime, as all times here.
    pub now: Duration,
    /// `None` when the volume is not mounted any more.
    pub mounted: Option<MountedVolume>,
    pub driver: DriverSeen,
    /// When to ask next.
    pub due: Duration,
    /// Whether an earlier answer is shown.
    pub shown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverSeen {
    Missing,
    /// It has no GET_VOLUME_STATS.
    Unable,
    Able,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// NodeGetVolumeStats.
    Ask,
    /// What was known is no longer true.
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Due(Duration),
    DriverMissing,
    DriverUnable,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due(at) => write!(f, "statistics are asked for at uptime {at:?}"),
            Self::DriverMissing => f.write_str("the driver is not registered"),
            Self::DriverUnable => f.write_str("the driver does not have GET_VOLUME_STATS"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;

/// What a driver said of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    pub bytes: Option<Amounts>,
    pub inodes: Option<Amounts>,
    pub condition: Option<Condition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    pub available: i64,
    pub total: i64,
    pub used: i64,
}

/// What the driver thinks of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub abnormal: bool,
    pub message: String,
}
