//! Cold start, resident memory when idle, size of the program.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::figures::Timings;
use crate::memory;
use crate::report::{Cell, Report};

/// The column of everything that is not one driver against another.
pub const SUBJECT: &str = "bowline";

/// Starts measured; the median is reported.
const STARTS: usize = 5;
/// Time for start-up work to settle before memory is read.
const SETTLE: Duration = Duration::from_secs(3);

pub async fn measure(program: &Path, report: &mut Report, stop: &CancellationToken) -> Result<()> {
    let mut times = Vec::new();
    let mut memory = 0;
    for _ in 0..STARTS {
        if stop.is_cancelled() {
            bail!("interrupted");
        }
        let (time, resident) = start_once(program).await?;
        times.push(time);
        memory = resident;
    }
    let size = std::fs::metadata(program).context("read the size of the program")?.len();
    let section = report.section("Start, memory, size");
    let median = times.into_iter().collect::<Timings>().quantile(0.5).context("at least one start")?;
    let what = format!("`bowline up`, cold start to ready, median of {STARTS}");
    section.put(&what, SUBJECT, Cell::ms(median)).budget("≤ 1 s");
    let what = format!("resident memory, idle, {} s after start", SETTLE.as_secs());
    section.put(&what, SUBJECT, Cell::kib(memory)).budget("≤ 64 MiB");
    section.put("the program itself", SUBJECT, Cell::kib(size / 1024));
    Ok(())
}

/// Time to the ready line, and resident KiB a little later.
async fn start_once(program: &Path) -> Result<(Duration, u64)> {
    let scratch = tempfile::tempdir().context("make a scratch directory")?;
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["up", "--listen", "127.0.0.1:0", "--node-name", "bench"])
        .args(["--data-dir".as_ref(), scratch.path().join("data").as_os_str()])
        .args(["--kubelet-dir".as_ref(), scratch.path().join("kubelet").as_os_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("start bowline")?;
    let mut lines = BufReader::new(child.stdout.take().context("piped")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with("bowline is up") {
            let time = started.elapsed();
            tokio::time::sleep(SETTLE).await;
            let resident = memory::resident(child.id().context("still running")?)?.now_kib;
            child.kill().await?;
            return Ok((time, resident));
        }
    }
    bail!("bowline up ended before it was ready")
}
