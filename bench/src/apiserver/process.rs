//! A server's process, its output in a file for the case that it does not come up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// After this, a process that was asked to end is killed.
const GRACE: Duration = Duration::from_secs(10);

pub struct Process {
    child: Child,
    pub log: PathBuf,
}

impl Process {
    pub fn start(program: &Path, arguments: &[String], log: PathBuf) -> Result<Self> {
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log).context("open a log")?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start `{}`", program.display()))?;
        Ok(Self { child, log })
    }

    pub fn pid(&self) -> Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// Whether it ended by itself, and what it said last.
    pub fn ended(&mut self) -> Result<Option<String>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        Ok(Some(format!("{status}: {}", last.into_iter().rev().collect::<Vec<_>>().join(" / "))))
    }

    pub async fn stop(&mut self) -> Result<()> {
        self.end_by(Signal::TERM).await
    }

    /// Ends it with this signal and waits for its end.
    pub async fn end_by(&mut self, signal: Signal) -> Result<()> {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            kill_process(pid, signal)?;
        }
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}
