//! What one more pod costs in CPU time, with few and with many of them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline::up::{Config, Running};
use bowline_api::{Pod, build, pod};
use tokio_util::sync::CancellationToken;

use crate::report::{Cell, Report};
use crate::startup::SUBJECT;

/// Pods that are created at a time; the first and the last such wave are reported.
const WAVE: usize = 50;
const MOST: usize = 200;
/// In which `/proc` counts CPU time for programs, on every machine.
const TICKS_PER_SECOND: u64 = 100;

pub async fn measure(program: &Path, report: &mut Report, stop: &CancellationToken) -> Result<()> {
    let scratch = tempfile::tempdir().context("make a scratch directory")?;
    let mut config = Config::scratch(scratch.path());
    config.shim = Some(program.to_owned());
    let node = config.node_name.clone();
    let running = Running::start(config).await?;
    let mut costs = Vec::new();
    while costs.len() < MOST / WAVE && !stop.is_cancelled() {
        costs.push(wave(&running, &node, costs.len() * WAVE).await?);
        eprintln!("{} of {MOST} pods", costs.len() * WAVE);
    }
    running.stop().await?;
    if stop.is_cancelled() {
        bail!("interrupted");
    }
    let section = report.section("Pods: CPU time of the process");
    for (number, cost) in costs.iter().enumerate().filter(|(number, _)| [0, costs.len() - 1].contains(number))
    {
        section.put(&format!("CPU per pod, at {} pods", (number + 1) * WAVE), SUBJECT, Cell::ms(*cost));
    }
    section.note(format!(
        "Without what containers use; {WAVE} pods are created at once, on a node that they name: the scheduler takes 110."
    ));
    Ok(())
}

/// CPU time for each of so many more pods, from their creation until all run.
async fn wave(running: &Running, node: &str, existing: usize) -> Result<Duration> {
    let effects = running.ports.effects("kubectl");
    let pods = running.ports.informers.of::<Pod>();
    let begun = cpu_time()?;
    for number in existing..existing + WAVE {
        let name = format!("pod-{number}");
        let mut wanted = build::pod(&name).shell("exec sleep 3600").grace_seconds(0).build();
        wanted.spec.get_or_insert_default().node_name = Some(node.to_owned());
        effects.create(&wanted).await?;
    }
    let all_run = |pods: &[std::sync::Arc<Pod>]| {
        pods.iter().filter(|one| pod::phase(one) == "Running").count() == existing + WAVE
    };
    pods.until(|cache| all_run(&cache.list()).then_some(())).await;
    let spent = cpu_time()?.saturating_sub(begun);
    Ok(spent / u32::try_from(WAVE)?)
}

/// Of this process, without those that it started.
fn cpu_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("read `/proc/self/stat`")?;
    parse(&stat).context("find the CPU time in `/proc/self/stat`")
}

/// The name before the last parenthesis may hold anything. After it: user time is field 14, system time 15.
fn parse(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_added() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 9 9 20 0 1 0 1234 0 0\n";
        assert_eq!(parse(stat), Some(Duration::from_millis(1750)));
        assert_eq!(parse("7 (a) S 1 7"), None);
        assert!(cpu_time().unwrap() < Duration::from_secs(3600));
    }
}
