//! Processes that a test runs: ours, under any of its names, or upstream's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// Last lines of the log that a failing test shows.
const SHOWN: usize = 12;

/// A process. Killed when it is dropped; its log is shown if the test fails.
pub struct Program {
    pub name: String,
    pub log: PathBuf,
    child: Child,
}

impl Program {
    /// `name` is what the log file is called.
    pub fn start(dir: &Path, name: &str, program: impl AsRef<Path>, words: &[&str]) -> Self {
        Self::start_with(dir, name, program, words, &[])
    }

    /// The same with these further environment variables.
    pub fn start_with(
        dir: &Path,
        name: &str,
        program: impl AsRef<Path>,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = std::fs::File::create(&log).expect("a log");
        let child = Command::new(program.as_ref())
            .args(words)
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .expect("the program starts");
        Self { name: name.into(), log, child }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log contains this.
    pub async fn says(&self, text: &str) {
        let said = async {
            while !self.log().contains(text) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let said = tokio::time::timeout(PATIENCE, said).await;
        assert!(said.is_ok(), "{} never said {text:?}", self.name);
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends with SIGTERM; says how.
    pub fn end(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended()
    }

    /// Waits for its own end.
    pub fn ended(&mut self) -> ExitStatus {
        let patience = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(Instant::now() < patience, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// As `kill -9` does it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let text = self.log();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
            let _ = writeln!(std::io::stderr(), "--- {} ---\n{last}", self.name);
        }
    }
}
