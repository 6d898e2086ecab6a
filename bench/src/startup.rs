//! Cold start, resident memory when idle, size of the program.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Starts measured; the median is reported.
const STARTS: usize = 5;
/// Time for start-up work to settle before memory is read.
const SETTLE: Duration = Duration::from_secs(3);

pub async fn measure(program: &Path) -> Result<()> {
    let mut times = Vec::new();
    let mut memory = 0;
    for _ in 0..STARTS {
        let (time, resident) = start_once(program).await?;
        times.push(time);
        memory = resident;
    }
    times.sort();
    let size = std::fs::metadata(program).context("read the size of the program")?.len();
    println!("cold start to ready, median of {STARTS}    {:>8} ms", times[STARTS / 2].as_millis());
    println!("resident memory, idle              {:>8.1} MiB", memory as f64 / 1024.0);
    println!("release binary                     {:>8.1} MiB", size as f64 / (1024.0 * 1024.0));
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
            let resident = resident_kib(child.id().context("still running")?)?;
            child.kill().await?;
            return Ok((time, resident));
        }
    }
    bail!("bowline up ended before it was ready")
}

fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("a figure")?.parse()?)
}
