//! Claim and pod created → container started, many in a row on the embedded default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bowline::up::{Config, Running};
use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, build, pod};
use bowline_machinery::Effects;
use bowline_machinery::journal::Entry;
use tokio_util::sync::CancellationToken;

use crate::figures::Timings;
use crate::report::{Cell, Report};
use crate::split::{by_component, is_own_work};
use crate::startup::SUBJECT;

/// What neither driver nor kernel did.
const ELSE: &str = "everything else: control-plane time";

/// One journey's figures.
struct Sample {
    total: Duration,
    own: Duration,
    split: BTreeMap<String, Duration>,
}

pub async fn measure(
    program: &Path,
    count: usize,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let scratch = tempfile::tempdir().context("make a scratch directory")?;
    let mut config = Config::scratch(scratch.path());
    config.shim = Some(program.to_owned());
    let running = Running::start(config).await?;
    let mut samples = Vec::with_capacity(count);
    for number in 0..count {
        if stop.is_cancelled() {
            break;
        }
        samples.push(journey(&running, number).await?);
        if (number + 1) % 50 == 0 {
            eprintln!("{} of {count} journeys", number + 1);
        }
    }
    running.stop().await?;
    if stop.is_cancelled() {
        bail!("interrupted");
    }
    put(report, &samples);
    Ok(())
}

async fn journey(running: &Running, number: usize) -> Result<Sample> {
    let (claim, name) = (format!("data-{number}"), format!("pod-{number}"));
    let effects = running.ports.effects("kubectl");
    let pods = running.ports.informers.of::<Pod>();
    let mut entries = running.ports.journal.listen();
    let (began, wall) = (Instant::now(), running.ports.host.clock.now());
    effects.create(&build::claim(&claim).size("64Mi").build()).await?;
    let wanted = build::pod(&name).shell("exec sleep 3600").mount(&claim, "/data").grace_seconds(0).build();
    effects.create(&wanted).await?;
    pods.until(|pods| pods.list().into_iter().find(|p| p.name() == name && pod::phase(p) == "Running")).await;
    let total = began.elapsed();
    let mut seen: Vec<Entry> = Vec::new();
    while let Ok(entry) = entries.try_recv() {
        seen.push(entry);
    }
    drop(entries);
    let own = seen.iter().filter(|e| is_own_work(e)).map(|e| e.took).sum();
    clean_up(running, &effects, &claim, &name).await?;
    Ok(Sample { total, own, split: by_component(wall, &seen) })
}

async fn clean_up(running: &Running, effects: &Effects, claim: &str, name: &str) -> Result<()> {
    let informers = &running.ports.informers;
    let (pods, claims) = (informers.of::<Pod>(), informers.of::<PersistentVolumeClaim>());
    for pod in pods.list().iter().filter(|p| p.name() == name) {
        effects.delete(pod.as_ref(), None).await?;
    }
    for claim in claims.list().iter().filter(|c| c.name() == claim) {
        effects.delete(claim.as_ref(), None).await?;
    }
    pods.until(|c| c.list().is_empty().then_some(())).await;
    claims.until(|c| c.list().is_empty().then_some(())).await;
    informers.of::<PersistentVolume>().until(|c| c.list().is_empty().then_some(())).await;
    Ok(())
}

fn put(report: &mut Report, samples: &[Sample]) {
    let section = report.section(&format!("Journeys: {} in a row", samples.len()));
    let mut row = |what: &str, of: &dyn Fn(&Sample) -> Duration| {
        let timings: Timings = samples.iter().map(of).collect();
        section.put(what, SUBJECT, Cell::spread(&timings));
    };
    row("claim and pod created → running", &|s| s.total);
    row("of which driver and kernel", &|s| s.own);
    row(ELSE, &|s| s.total.saturating_sub(s.own));
    let names: BTreeSet<&String> = samples.iter().flat_map(|s| s.split.keys()).collect();
    for name in names {
        row(name, &|s| s.split.get(name).copied().unwrap_or_default());
    }
    for row in section.rows.iter_mut().filter(|row| row.what == ELSE) {
        row.budget("≤ 30 / 100 ms");
    }
    section.note("Median / p99. Below the first three: by who ended the wait.");
}
