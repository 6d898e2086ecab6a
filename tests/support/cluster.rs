//! The process under test: start, kill, start again on the same data.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::ports::free_ports;
use super::{PATIENCE, machine};

/// One scratch installation; the process may come and go.
pub struct Cluster {
    pub scratch: tempfile::TempDir,
    port: u16,
    child: Child,
    /// Kept open: a closed pipe would end the process when it prints.
    _output: Lines<BufReader<ChildStdout>>,
    pub crashed_at_start: bool,
}

impl Cluster {
    pub async fn start() -> Self {
        let cluster = Self::start_with(&[]).await;
        assert!(!cluster.crashed_at_start, "bowline up ended before it was ready");
        cluster
    }

    /// Starts with extra environment, and once more without it if that kills it before it is ready.
    pub async fn start_with(environment: &[(&str, &str)]) -> Self {
        let scratch = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
        let [port] = free_ports();
        let (started, crashed_at_start) = match launch(scratch.path(), port, environment).await {
            Some(started) => (started, false),
            None => (launch(scratch.path(), port, &[]).await.expect("a second start succeeds"), true),
        };
        Self { scratch, port, child: started.0, _output: started.1, crashed_at_start }
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
        bowline_machinery::client::connect(Some(&self.kubeconfig()))
            .await
            .expect("client from the kubeconfig")
    }

    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Starts again on the same data and port.
    pub async fn restart(&mut self) {
        self.kill().await;
        let (child, output) =
            launch(self.scratch.path(), self.port, &[]).await.expect("start on the same data");
        self.child = child;
        self._output = output;
    }

    /// Ctrl-C; returns whether the process ended with success.
    pub async fn interrupt(&mut self) -> bool {
        let pid = rustix::process::Pid::from_raw(self.child.id().expect("running") as i32).expect("pid");
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("ends after Ctrl-C");
        ended.expect("exit status").success()
    }

    pub fn assert_nothing_left(&self) {
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
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        machine::clean_below(self.scratch.path());
    }
}

/// Starts the process and waits until it says that it is ready.
async fn launch(
    scratch: &Path,
    port: u16,
    environment: &[(&str, &str)],
) -> Option<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["up", "--listen", &format!("127.0.0.1:{port}"), "--node-name", "test-node"])
        .args(["--data-dir".as_ref(), scratch.join("data").as_os_str()])
        .args(["--kubelet-dir".as_ref(), scratch.join("kubelet").as_os_str()])
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("start bowline");
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
