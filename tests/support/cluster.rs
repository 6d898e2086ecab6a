//! The process under test: start, kill, start again on the same data.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bowline_host::real::RealConfig;
use bowline_machinery::client::{self, Line, Source};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::ports::free_ports;
use super::{PATIENCE, machine};

/// Pause between two looks at directories, which nobody tells of.
const LOOK: Duration = Duration::from_millis(20);

/// One scratch installation; the process may come and go.
pub struct Cluster {
    pub scratch: tempfile::TempDir,
    port: u16,
    child: Child,
    /// Kept open: a closed pipe would end the process when it prints.
    output: Lines<BufReader<ChildStdout>>,
    /// What was written by a process that ended before it was ready.
    pub crashed_at_start: Option<String>,
    /// UIDs of pods whose containers must leave no control group behind.
    pub pods: BTreeSet<String>,
}

impl Cluster {
    pub async fn start() -> Self {
        let cluster = Self::start_with(&[]).await;
        let ended = &cluster.crashed_at_start;
        assert!(
            ended.is_none(),
            "bowline up ended before it was ready: {}",
            ended.as_deref().unwrap_or_default()
        );
        cluster
    }

    /// Starts in a scratch directory that was prepared.
    pub async fn start_in(scratch: tempfile::TempDir) -> Self {
        let [port] = free_ports();
        let started = launch(scratch.path(), port, &[]).await.expect("bowline up is ready");
        Self {
            scratch,
            port,
            child: started.0,
            output: started.1,
            crashed_at_start: None,
            pods: BTreeSet::new(),
        }
    }

    /// Starts with extra environment, and once more without it if that kills it before it is ready.
    pub async fn start_with(environment: &[(&str, &str)]) -> Self {
        let scratch = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
        let [port] = free_ports();
        let (started, crashed_at_start) = match launch(scratch.path(), port, environment).await {
            Some(started) => (started, None),
            None => {
                let first = std::fs::read_to_string(log_file(scratch.path())).unwrap_or_default();
                let second = launch(scratch.path(), port, &[]).await;
                let second =
                    second.unwrap_or_else(|| panic!("the second start failed as well; the first: {first}"));
                (second, Some(first))
            }
        };
        Self { scratch, port, child: started.0, output: started.1, crashed_at_start, pods: BTreeSet::new() }
    }

    /// Whether the process has ended by itself; one that is dying closes its sockets a little earlier.
    pub async fn has_ended(&mut self) -> bool {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.is_ok()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub fn kubelet_dir(&self) -> PathBuf {
        self.scratch.path().join("kubelet")
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    /// Directories of the local driver's volumes.
    pub fn images(&self) -> Vec<PathBuf> {
        self.in_pool("volumes")
    }

    /// Directories of the local driver's snapshots.
    pub fn snapshots(&self) -> Vec<PathBuf> {
        self.in_pool("snapshots")
    }

    /// Directories of the share driver's volumes.
    pub fn shares(&self) -> Vec<PathBuf> {
        self.in_pool("shares")
    }

    fn in_pool(&self, kind: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data_dir().join("pool").join(kind));
        // A name with a dot is no volume: the driver tries whether it can write there.
        let is_volume = |entry: &DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        entries.into_iter().flatten().flatten().filter(is_volume).map(|entry| entry.path()).collect()
    }

    pub async fn client(&self) -> kube::Client {
        let host = bowline_host::real::host(RealConfig::new(self.data_dir())).expect("this machine");
        let source = Source::File(self.kubeconfig());
        client::connect(&source, Line::default(), host.disk).await.expect("client from the kubeconfig")
    }

    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Starts again on the same data and port.
    pub async fn restart(&mut self) {
        assert!(self.restart_with(&[]).await, "start on the same data: {}", self.log());
    }

    /// The same with extra environment; false if the process ended before it was ready.
    pub async fn restart_with(&mut self, environment: &[(&str, &str)]) -> bool {
        self.kill().await;
        let started = launch(self.scratch.path(), self.port, environment).await;
        let is_ready = started.is_some();
        if let Some((child, output)) = started {
            (self.child, self.output) = (child, output);
        }
        is_ready
    }

    /// What the running process, or the last one, has written to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(log_file(self.scratch.path())).unwrap_or_default()
    }

    /// Starts again on the same data, and sends Ctrl-C as soon as the process takes signals; returns whether it ended
    /// with success.
    pub async fn interrupted_start(&mut self) -> bool {
        self.kill().await;
        self.child = spawn(self.scratch.path(), self.port, &[]);
        let status = format!("/proc/{}/status", self.child.id().expect("running"));
        // Bit 1 of SigCgt: SIGINT has a handler.
        let caught = |text: String| {
            let mask =
                text.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim).map(str::to_owned));
            mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).is_some_and(|mask| mask & 2 != 0)
        };
        let ready = async {
            while !std::fs::read_to_string(&status).map(caught).unwrap_or(false) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("takes signals");
        self.interrupt().await
    }

    fn send_interrupt(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().expect("running") as i32).expect("pid");
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
    }

    /// Ctrl-C, and again when the process says that it stops; returns the signal that ended it, if one did.
    pub async fn interrupt_twice(&mut self) -> Option<i32> {
        self.send_interrupt();
        let stops = async {
            while let Ok(Some(line)) = self.output.next_line().await {
                if line.starts_with("stopping") {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, stops).await.expect("says that it stops");
        self.send_interrupt();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("ends after Ctrl-C");
        ended.expect("exit status").signal()
    }

    /// Ctrl-C; returns whether the process ended with success.
    pub async fn interrupt(&mut self) -> bool {
        self.send_interrupt();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("ends after Ctrl-C");
        ended.expect("exit status").success()
    }

    /// Nothing of any pod is on the machine, at the latest after a while: the kubelet goes on when the last object has gone.
    pub async fn assert_nothing_left(&self) {
        assert_eq!(self.nothing_of_pods().await, Ok(()), "left behind");
        let scratch = self.scratch.path();
        let busy = || !machine::mounts_below(scratch).is_empty() || !machine::loops_below(scratch).is_empty();
        let unmounted = async {
            while busy() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, unmounted).await;
        self.assert_nothing_mounted();
    }

    /// Waits until nothing of any pod is on disk; the end of the process is an error.
    pub async fn until_pods_left_nothing(&mut self) -> Result<(), String> {
        let left = self.traces();
        tokio::select! {
            left = until_none(left) => left,
            _ = self.child.wait() => Err("the process ended while it removed what pods had left".into()),
        }
    }

    async fn nothing_of_pods(&self) -> Result<(), String> {
        until_none(self.traces()).await
    }

    /// Everything that pods, their volumes and their containers leave on a machine while they are there.
    fn traces(&self) -> impl Fn() -> Vec<String> + use<> {
        let (kubelet, records) = (self.kubelet_dir(), self.data_dir().join("containers"));
        let pods = self.pods.clone();
        move || {
            let mut left = Vec::new();
            for kind in ["pods", "pod-logs", "bowline-pods"] {
                left.extend(entries(&kubelet.join(kind)));
            }
            left.extend(entries(&records));
            let plugin = kubelet.join("plugins/kubernetes.io/csi");
            for driver in entries(&plugin) {
                let devices = driver.ends_with("volumeDevices");
                for entry in entries(&driver) {
                    // These two stay, empty.
                    match devices && (entry.ends_with("publish") || entry.ends_with("staging")) {
                        true => left.extend(entries(&entry)),
                        false => left.push(entry),
                    }
                }
            }
            let shims = machine::processes_below(&records).into_iter();
            let left = left.into_iter().map(|path| path.display().to_string());
            left.chain(shims.map(|(pid, command)| format!("process {pid}: {command}")))
                .chain(machine::control_groups_of(&pods))
                .collect()
        }
    }

    /// After Ctrl-C this is all: what is on disk waits for the next start.
    pub fn assert_nothing_mounted(&self) {
        assert_eq!(machine::mounts_below(self.scratch.path()), Vec::<String>::new(), "mounts left behind");
        assert_eq!(
            machine::loops_below(self.scratch.path()),
            Vec::<String>::new(),
            "loop devices left behind"
        );
    }
}

impl Drop for Cluster {
    /// A failed test must not leave mounts that keep the next one from running.
    #[allow(clippy::print_stderr, reason = "a failed test shows the log of the process under test")]
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        if std::thread::panicking() {
            eprintln!("log of {}:\n{}", self.scratch.path().display(), self.log());
        }
        machine::clean_below(self.scratch.path());
    }
}

/// Waits until nothing is left; the error names what stays.
async fn until_none(left: impl Fn() -> Vec<String>) -> Result<(), String> {
    let none = async {
        while !left().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, none).await.map_err(|_| left().join(", "))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Where the process writes its log, from its start.
fn log_file(scratch: &Path) -> PathBuf {
    scratch.join("log")
}

fn spawn(scratch: &Path, port: u16, environment: &[(&str, &str)]) -> Child {
    let log = std::fs::File::create(log_file(scratch)).expect("log file");
    Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["up", "--listen", &format!("127.0.0.1:{port}"), "--node-name", "test-node"])
        .args(["--data-dir".as_ref(), scratch.join("data").as_os_str()])
        .args(["--kubelet-dir".as_ref(), scratch.join("kubelet").as_os_str()])
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .expect("start bowline")
}

/// Starts the process and waits until it says that it is ready.
async fn launch(
    scratch: &Path,
    port: u16,
    environment: &[(&str, &str)],
) -> Option<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = spawn(scratch, port, environment);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let ready = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with("bowline is up") {
                return true;
            }
        }
        false
    };
    let ready = tokio::time::timeout(PATIENCE, ready).await.expect("ready in time");
    ready.then_some((child, lines))
}
