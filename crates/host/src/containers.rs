//! Containers: processes in namespaces of their own, which outlive the process that started them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::kernel::Result;

/// Code of a container that never ran, as other runtimes report it.
pub const START_ERROR: i32 = 128;
/// Code of a process that a signal ended is this and the signal.
pub const SIGNALLED: i32 = 128;
/// As much of a message as upstream shows.
pub const MESSAGE_MAX: usize = 4096;
/// As container runtimes set it when the image says nothing.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Something of the host that shows inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub source: PathBuf,
    /// Path inside the container.
    pub target: PathBuf,
    pub read_only: bool,
    /// Relative path below `source` that is shown instead of it. Resolved when the container starts, without ever
    /// leaving `source`; a missing directory is created.
    #[serde(default)]
    pub sub_path: Option<PathBuf>,
}

impl Binding {
    pub fn new(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into(), read_only: false, sub_path: None }
    }

    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

/// Capabilities of a container whose spec names none: what container runtimes give by default, without MKNOD and
/// NET_RAW.
pub const DEFAULT_CAPABILITIES: [&str; 12] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    "AUDIT_WRITE",
];

/// Every capability that the kernel has, at the place of its number.
pub const ALL_CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Which system calls a container's processes may make. Calls that reconfigure a loop device are refused in either, and
/// so are, without SYS_ADMIN, namespaces of control groups and the kernel's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    RuntimeDefault,
    Unconfined,
}

/// Who a container's processes are and what they may do; programs that `exec` adds included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Names without the prefix `CAP_`, of [`ALL_CAPABILITIES`]. The bounding set; user 0 also has them in effect. Those
    /// that this process does not have itself are not given.
    pub capabilities: BTreeSet<String>,
    pub no_new_privileges: bool,
    /// Also makes `/tmp` and `/run` read-only, which are writable tmpfs otherwise.
    pub read_only_root: bool,
    pub seccomp: Seccomp,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            capabilities: DEFAULT_CAPABILITIES.map(str::to_owned).into(),
            no_new_privileges: false,
            read_only_root: false,
            seccomp: Seccomp::RuntimeDefault,
        }
    }
}

/// What a container's processes may use up together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Hard limit of memory in bytes; past it the kernel ends a process of the container.
    pub memory_max: Option<u64>,
    /// Weight against other containers: 1,024 for each CPU requested.
    pub cpu_shares: Option<u64>,
    /// Microseconds of CPU time in every 100 ms.
    pub cpu_quota: Option<u64>,
    /// How many processes and threads there may be at once; [`DEFAULT_PIDS_MAX`] when nothing is said.
    pub pids_max: Option<u64>,
}

/// Enough for any server that is not broken, and far from what the machine has.
pub const DEFAULT_PIDS_MAX: u64 = 4096;

/// Everything needed to start a container, and to find it again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// `<pod uid>/<container name>/<attempt>`: unique, and stable over restarts of this process.
    pub id: String,
    pub hostname: String,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub working_dir: Option<PathBuf>,
    /// Directories or files at their mountPath.
    pub mounts: Vec<Binding>,
    /// Block devices at their devicePath.
    pub devices: Vec<Binding>,
    /// Host directories that must not show through the read-only root (keys, other pods' volumes).
    pub hidden: Vec<PathBuf>,
    #[serde(default)]
    pub security: Security,
    #[serde(default)]
    pub resources: Resources,
    /// Standard output and error, line by line in the format of the CRI, appended. Large files are put aside
    /// under the same name with a number, and the oldest go.
    pub log: PathBuf,
    /// Where the program finds a small empty file, in memory; what it leaves there is the message of its end.
    #[serde(default)]
    pub message_path: Option<PathBuf>,
}

impl ContainerSpec {
    /// Whether the spec can be carried out at all; if not, what of it cannot.
    pub fn check(&self) -> std::result::Result<(), String> {
        let known = |name: &&String| !ALL_CAPABILITIES.contains(&name.as_str());
        if let Some(unknown) = self.security.capabilities.iter().find(known) {
            return Err(format!("capability `{unknown}` is not known; names are written as in `NET_ADMIN`"));
        }
        let targets = self.mounts.iter().chain(&self.devices).map(|binding| &binding.target);
        for target in targets.chain(&self.message_path) {
            if !target.is_absolute() || leads_up(target) {
                let target = target.display();
                return Err(format!("mount at `{target}`: the path has to be absolute and without `..`"));
            }
        }
        for binding in self.mounts.iter().chain(&self.devices) {
            if let Some(path) = binding.sub_path.as_ref().filter(|path| path.is_absolute() || leads_up(path))
            {
                let path = path.display();
                return Err(format!("sub-path `{path}`: the path has to be relative and without `..`"));
            }
        }
        Ok(())
    }
}

fn leads_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; [`SIGNALLED`] + signal when a signal ended it; [`START_ERROR`] with an error when it never ran.
    pub code: i32,
    pub signal: Option<i32>,
    pub finished_at: Timestamp,
    /// Why it never ran (bad command, missing volume), or why nothing is known of its end.
    pub error: Option<String>,
    /// The kernel ended one of its processes because `memory_max` was reached.
    #[serde(default)]
    pub oom_killed: bool,
    /// What the program left in the file at `message_path`, up to [`MESSAGE_MAX`] bytes. It is lost when the container
    /// as a whole is killed.
    #[serde(default)]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Running { pid: u32, started_at: Timestamp },
    Exited { started_at: Timestamp, exit: Exit },
}

/// A container with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub state: State,
    /// See [`Containers::mark_evicted`].
    pub evicted: bool,
    /// It has ended, and ran before the machine was started the last time.
    pub earlier_boot: bool,
}

/// A program to run in a container beside its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    pub argv: Vec<String>,
    /// Whether anything will be written to it; otherwise it reads nothing.
    pub stdin: bool,
    /// Input and output are one terminal.
    pub tty: bool,
}

/// A terminal's size can change while it is used.
pub trait Terminal: Send + Sync {
    fn resize(&self, columns: u16, rows: u16) -> io::Result<()>;
}

/// A program that runs in a container. Dropping `ended` kills it.
pub struct Session {
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// With a terminal there is only one output.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub terminal: Option<Box<dyn Terminal>>,
    /// Its exit code; 128 + signal when a signal ended it.
    pub ended: BoxFuture<'static, io::Result<i32>>,
}

#[async_trait]
pub trait Containers: Send + Sync {
    /// Starts a container; the same id again returns the running one.
    async fn start(&self, spec: &ContainerSpec) -> Result<State>;
    /// Every container with a record, running or exited, by id. One that is being started is waited for; one whose
    /// start came to nothing is forgotten.
    async fn list(&self) -> Result<Vec<Found>>;
    async fn state(&self, id: &str) -> Result<Option<State>>;
    /// Completes when the container has ended; also for one started by an earlier process.
    async fn wait(&self, id: &str) -> Result<Exit>;
    /// Writes down for good that it is not the workload's doing if the container ends from now on.
    async fn mark_evicted(&self, id: &str) -> Result<()>;
    /// Sends a signal to the container's first process. Already gone is success.
    async fn signal(&self, id: &str, signal: i32) -> Result<()>;
    /// Runs a program in a running container.
    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Session>;
    /// Forgets an exited container.
    async fn remove(&self, id: &str) -> Result<()>;
}
