//! The local driver of a bowline program, as a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::subject::Subject;

/// Waited for at most 500 × 20 ms.
const START_TRIES: u32 = 500;
const START_PAUSE: Duration = Duration::from_millis(20);
const STOP_MAX: Duration = Duration::from_secs(30);

/// Its column in the table.
pub const NAME: &str = "bowline local";

pub struct Own {
    child: Child,
    socket: PathBuf,
}

impl Own {
    /// Returns when it serves. `dir` gets the socket and the log.
    pub async fn start(program: &Path, dir: &Path, pool: &Path) -> Result<Self> {
        let program = program.canonicalize().with_context(|| format!("find `{}`", program.display()))?;
        let socket = dir.join("csi.sock");
        let log = dir.join("driver.log");
        let child = Command::new(&program)
            .args(["driver", "local", "--node-id", "bench", "--endpoint"])
            .arg(&socket)
            .arg("--pool")
            .arg(pool)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("create `{}`", log.display()))?)
            // A Ctrl-C is for the bench, which still needs the driver to clean up.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start `{}`", program.display()))?;
        let mut own = Self { child, socket };
        for _ in 0..START_TRIES {
            if let Some(status) = own.child.try_wait().context("look at the driver")? {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("the driver ended ({status}) before it served: {}", said.trim());
            }
            if UnixStream::connect(&own.socket).await.is_ok() {
                return Ok(own);
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        bail!("the driver does not serve on `{}`", own.socket.display())
    }

    pub async fn meet(&self, host: &Host) -> Result<Subject> {
        Subject::meet(host, &self.socket, Some(NAME), None).await
    }

    pub async fn stop(mut self) -> Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.context("the driver has ended by itself")?, Signal::TERM)
            .context("stop the driver")?;
        match tokio::time::timeout(STOP_MAX, self.child.wait()).await {
            Ok(ended) => ended.map(drop).context("wait for the driver"),
            Err(_) => bail!("the driver did not stop within {} s", STOP_MAX.as_secs()),
        }
    }
}
