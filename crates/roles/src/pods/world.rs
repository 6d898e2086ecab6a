//! What is seen of one pod, and what is done about it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::Pod;
pub use bowline_host::containers::{Binding, ContainerSpec, Exit, State};
use jiff::Timestamp;
use serde_json::Value;

pub use crate::volumemanager::{PodVolumes, VolumeAt};

pub const SIGTERM: i32 = 15;
pub const SIGKILL: i32 = 9;

/// What does not change while the process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    pub node_name: String,
    pub kubelet_dir: PathBuf,
    /// Standard output of containers: `<namespace>_<name>_<uid>/<container>/<attempt>.log` below it.
    pub log_dir: PathBuf,
    /// Host directories that containers must not see.
    pub hidden: Vec<PathBuf>,
    /// How long a container may take to end when the node agent stops.
    pub drain_grace: Duration,
}

/// One run of a container that has a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub state: State,
    pub term_at: Option<Timestamp>,
    pub killed: bool,
    /// Its end, if it comes, is our doing because the node agent stops, or that of an earlier process of ours.
    pub evicted: bool,
    /// What runs before this one have written is gone.
    pub logs_removed: bool,
}

impl Attempt {
    pub fn running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub uid: String,
    pub now: Timestamp,
    pub config: Arc<Config>,
    /// `None`: not in the API any more, or not on this node.
    pub pod: Option<Arc<Pod>>,
    /// By container name, oldest first.
    pub attempts: BTreeMap<String, Vec<Attempt>>,
    /// Ends in a row, by container name; a long run starts anew.
    pub crashes: BTreeMap<String, u32>,
    pub volumes: PodVolumes,
    /// Since when some volume cannot be worked out.
    pub problem_since: Option<Timestamp>,
    /// The last problem that the pod was told of.
    pub told: Option<String>,
    /// Some volume of it is here, or may be.
    pub left: bool,
    /// It has entered: its volumes are kept for it.
    pub inside: bool,
    /// The node agent stops, and everything with it.
    pub evicting: bool,
    /// Its directory may exist.
    pub directory: bool,
}

impl Observed {
    pub fn latest(&self, container: &str) -> Option<&Attempt> {
        self.attempts.get(container)?.last()
    }

    pub fn id(&self, container: &str, number: u32) -> String {
        format!("{}/{container}/{number}", self.uid)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Its volumes are kept for it from now on.
    Enter,
    Start {
        container: String,
        number: u32,
        spec: Box<ContainerSpec>,
    },
    /// Writes down that a run is about to be ended by us, and not by the workload.
    Evict {
        container: String,
        number: u32,
    },
    Signal {
        container: String,
        number: u32,
        signal: i32,
    },
    /// Removes what runs of a container before this one have written.
    RemoveLogs {
        container: String,
        before: u32,
    },
    /// Removes the record of a run that has ended.
    Remove {
        container: String,
        number: u32,
    },
    PatchStatus(Value),
    /// Tells the pod why its volumes cannot be mounted.
    Report(String),
    /// No container runs and none will start: its volumes may go.
    Leave,
    CleanDirectory,
    /// Takes the pod out of the API.
    Delete,
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Volumes(Vec<String>),
    VolumeProblem(Timestamp),
    Told(String),
    Unsupported(String),
    Initializing(String),
    BackOff { container: String, at: Timestamp },
    Grace(Timestamp),
    Exiting,
    Unmounting,
}

impl Why {
    /// When to look again even if nothing changes.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::VolumeProblem(at) | Self::BackOff { at, .. } | Self::Grace(at) => Some(*at),
            Self::Volumes(_)
            | Self::Told(_)
            | Self::Unsupported(_)
            | Self::Initializing(_)
            | Self::Exiting
            | Self::Unmounting => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volumes(names) => write!(f, "volumes {names:?} are not mounted yet"),
            Self::VolumeProblem(at) => write!(f, "some volume cannot be worked out; reported at {at}"),
            Self::Told(text) | Self::Unsupported(text) => f.write_str(text),
            Self::Initializing(name) => write!(f, "init container {name} has not finished"),
            Self::BackOff { container, at } => write!(f, "container {container} is restarted at {at}"),
            Self::Grace(at) => write!(f, "containers have until {at} to end"),
            Self::Exiting => f.write_str("containers were killed and are ending"),
            Self::Unmounting => f.write_str("volumes are being unmounted"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
