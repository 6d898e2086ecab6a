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

pub use super::probes::{ProbeKind, ProbeState};
use super::spec::{Objects, Problem};
use crate::kubelet::Reported;
pub use crate::kubelet::volumemanager::{PodVolumes, VolumeAt};

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
    /// `--allow-privileged`: whether containers may have what reaches beyond them.
    pub allow_privileged: bool,
}

/// One run of a container that has a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub state: State,
    /// When it was started, as far as this process can tell. All times here are of the machine's uptime.
    pub since: Duration,
    /// When this process learnt that it has ended.
    pub ended_at: Option<Duration>,
    pub term_at: Option<Duration>,
    pub killed: bool,
    /// Its end, if it comes, is our doing because the node agent stops, or that of an earlier process of ours.
    pub evicted: bool,
    /// It ran before the machine was started the last time.
    pub earlier_boot: bool,
    /// What runs before this one have written is gone.
    pub logs_removed: bool,
    pub probes: BTreeMap<ProbeKind, ProbeState>,
    pub post_start: HookState,
    pub pre_stop: HookState,
    /// Since when it is being ended: the start of its preStop hook, or of the request to end.
    pub stopping_since: Option<Duration>,
    /// What it wrote last, if it failed and its pod wants that shown.
    pub last_lines: Option<String>,
}

/// A lifecycle hook of one run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookState {
    #[default]
    NotRun,
    Running,
    Done,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    PostStart,
    PreStop,
}

/// How a probe or a hook went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure(String),
    /// It could not be asked.
    Unknown(String),
}

impl Attempt {
    pub fn new(number: u32, state: State, since: Duration) -> Self {
        Self {
            number,
            state,
            since,
            ended_at: None,
            term_at: None,
            killed: false,
            evicted: false,
            earlier_boot: false,
            logs_removed: false,
            probes: BTreeMap::new(),
            post_start: HookState::NotRun,
            pre_stop: HookState::NotRun,
            stopping_since: None,
            last_lines: None,
        }
    }

    pub fn running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub uid: String,
    /// The machine's uptime: whatever lasts is counted by it.
    pub now: Duration,
    /// The time of day, for timestamps that people read.
    pub wall: Timestamp,
    /// When this process first saw the pod.
    pub known_since: Duration,
    /// When this process first saw that the pod is being deleted.
    pub deleting_since: Option<Duration>,
    /// Since when the pod was seen to be active, and for how long it had been by then.
    pub active: Option<(Duration, Duration)>,
    pub config: Arc<Config>,
    /// `None`: not in the API any more, or not on this node.
    pub pod: Option<Arc<Pod>>,
    /// By container name, oldest first.
    pub attempts: BTreeMap<String, Vec<Attempt>>,
    /// Ends in a row, by container name; a long run starts anew.
    pub crashes: BTreeMap<String, u32>,
    pub volumes: PodVolumes,
    /// Why this node will never attach the pod's volumes.
    pub rejected: Option<String>,
    /// What its variables come from.
    pub objects: Objects,
    /// Since when some volume cannot be worked out.
    pub problem_since: Option<Duration>,
    /// The last problem that the pod was told of.
    pub told: Option<Reported>,
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

/// What a container is started with.
#[derive(Clone, PartialEq)]
pub struct StartSpec(pub Box<ContainerSpec>);

// By hand: decisions are logged, and variables may come from secrets.
impl fmt::Debug for StartSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.id)
    }
}

impl std::ops::Deref for StartSpec {
    type Target = ContainerSpec;
    fn deref(&self) -> &ContainerSpec {
        &self.0
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Its volumes are kept for it from now on.
    Enter,
    Start {
        container: String,
        number: u32,
        spec: StartSpec,
    },
    /// Asks a probe in the background.
    Probe {
        container: String,
        number: u32,
        kind: ProbeKind,
    },
    /// Runs a lifecycle hook in the background.
    RunHook {
        container: String,
        number: u32,
        hook: Hook,
        /// It is given up after this time.
        deadline: Option<Duration>,
        /// What the pod is told about it.
        text: Option<String>,
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
        /// What the pod is told about it.
        text: String,
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
    VolumeProblem(Duration),
    Told(String),
    /// It cannot run as it is.
    Refused(Problem),
    /// Objects that its variables come from are being looked up.
    Looking,
    Initializing(String),
    PostStart(String),
    BackOff {
        container: String,
        at: Duration,
    },
    Grace(Duration),
    Exiting,
    Unmounting,
    /// Nothing, until a probe or the pod's deadline is due.
    Scheduled(Duration),
    /// For this, but no longer than until then.
    Until(Box<Why>, Duration),
}

impl Why {
    /// When to look again even if nothing changes.
    pub fn until(&self) -> Option<Duration> {
        match self {
            Self::Until(why, at) => Some(why.until().map_or(*at, |other| other.min(*at))),
            Self::VolumeProblem(at) | Self::BackOff { at, .. } | Self::Grace(at) | Self::Scheduled(at) => {
                Some(*at)
            }
            Self::Volumes(_)
            | Self::Told(_)
            | Self::Refused(_)
            | Self::Looking
            | Self::Initializing(_)
            | Self::PostStart(_)
            | Self::Exiting
            | Self::Unmounting => None,
        }
    }

    /// What is waited for, without the time.
    pub fn reason(&self) -> &Self {
        match self {
            Self::Until(why, _) => why.reason(),
            other => other,
        }
    }

    /// Reason and text of the event that is due when this takes longer than people would wait.
    /// Waits for volumes are not here: who mounts them tells of them, and knows why.
    pub fn overdue(&self) -> Option<(&'static str, String)> {
        match self.reason() {
            Self::Looking => Some((
                "Failed",
                "Error: config maps or secrets of its variables cannot be read yet".to_owned(),
            )),
            Self::PostStart(name) => {
                Some(("PostStartHookRunning", format!("postStart hook of container {name} has not finished")))
            }
            Self::Exiting => Some((
                "FailedKillPod",
                "error killing pod: its containers were killed and have not ended".to_owned(),
            )),
            Self::Unmounting => {
                Some(("FailedUnmount", "the pod has ended, and its volumes are not unmounted yet".to_owned()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volumes(names) => write!(f, "volumes {names:?} are not mounted yet"),
            Self::VolumeProblem(at) => {
                write!(f, "some volume cannot be worked out; reported at uptime {at:?}")
            }
            Self::Told(text) => f.write_str(text),
            Self::Refused(problem) => f.write_str(&problem.message),
            Self::Looking => f.write_str("config maps and secrets of its variables are being looked up"),
            Self::Initializing(name) => write!(f, "init container {name} has not finished"),
            Self::PostStart(name) => write!(f, "postStart hook of container {name} has not finished"),
            Self::BackOff { container, at } => {
                write!(f, "container {container} is restarted at uptime {at:?}")
            }
            Self::Grace(at) => write!(f, "containers have until uptime {at:?} to end"),
            Self::Exiting => f.write_str("containers were killed and are ending"),
            Self::Unmounting => f.write_str("volumes are being unmounted"),
            Self::Scheduled(at) => write!(f, "all is well; looking again at uptime {at:?}"),
            Self::Until(why, at) => write!(f, "{why} (looking again at uptime {at:?})"),
        }
    }
}

pub type Step = bowline_machinery::Step<Action, Why>;
