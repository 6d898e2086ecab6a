//! All sidecars of one driver on upstream's kube-apiserver, etcd and kube-controller-manager: upstream's with their default
//! limits, upstream's with limits opened, and ours, each on a fresh cluster with the same driver.

mod audit;
mod cluster;
mod handover;
mod phases;
mod processes;
mod watch;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio_util::sync::CancellationToken;

use crate::args::{SidecarsArgs, Subjects};
use crate::report::{Cell, Report, Section};
use cluster::Cluster;
use processes::{Crew, Usage};

const SECTION: &str = "Sidecars";
/// Time for lists and first passes to settle before something idle is looked at.
const SETTLE: Duration = Duration::from_secs(5);
/// How long idle sidecars are looked at.
const IDLE: Duration = Duration::from_secs(20);

pub async fn measure(
    program: &Path,
    args: &SidecarsArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    for subject in args.subjects() {
        if stop.is_cancelled() {
            bail!("interrupted");
        }
        eprintln!("sidecars: {}", subject.name());
        let mut cluster = Cluster::start(program, args).await?;
        let measured = one(&mut cluster, program, args, subject, report, stop).await;
        cluster.stop().await?;
        measured?;
    }
    notes(args, report.section(SECTION));
    Ok(())
}

async fn one(
    cluster: &mut Cluster,
    program: &Path,
    args: &SidecarsArgs,
    subject: Subjects,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let name = subject.name();
    let mut crew = Crew::start(cluster, program, args, subject, 1)?;
    let took = phases::first_claim(cluster).await?;
    let section = report.section(SECTION);
    section.put("programs", name, Cell::Mib(crew.size_mib()?)).budget("≤ 20 MB");
    section.put("start to the first claim Bound", name, Cell::ms(took));
    tokio::time::sleep(SETTLE).await;
    let before = crew.usage()?;
    tokio::time::sleep(IDLE).await;
    let idle = crew.usage()?;
    section.put("resident memory, idle", name, Cell::kib(idle.resident_kib)).budget("≤ 22 MiB");
    section.put("CPU, idle", name, Cell::Said(idle.since(&before, IDLE)));
    phases::all(cluster, &mut crew, args, name, section, stop).await?;
    if args.rounds > 0 {
        handover::measure(cluster, crew, program, args, subject, section).await?;
    } else {
        crew.stop().await?;
    }
    Ok(())
}

fn notes(args: &SidecarsArgs, section: &mut Section) {
    let attacher = match &args.csi_attacher {
        Some(path) => format!("upstream's csi-attacher is `{}`", path.display()),
        None => {
            "no csi-attacher of upstream's took part: the module proxy does not serve it (--csi-attacher)"
                .to_owned()
        }
    };
    section.note(format!(
        "{} claims, {} snapshots, {} resizes, {} at a time; raw block volumes of 16 MiB; kube-controller-manager with --kube-api-qps=1000; median / p99; {attacher}.",
        args.claims, args.snapshots, args.resizes, args.parallel
    ));
}

/// What a phase took of the sidecars.
fn cost(before: &Usage, after: &Usage, count: usize) -> String {
    let each = (after.cpu - before.cpu).as_secs_f64() * 1000.0 / count.max(1) as f64;
    format!("{each:.2} ms")
}
