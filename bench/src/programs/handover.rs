//! From the end of a leader to the first effect of its standby, with upstream's default timings of leases.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::By;
use super::cluster::{Cluster, DRIVER};
use crate::apiserver::process::Process;
use crate::args::ProgramsArgs;
use crate::figures::Timings;
use crate::report::{Cell, Report};

/// Time for a standby to fill its caches.
const WARM: Duration = Duration::from_secs(3);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// A program that has leaders.
struct Led {
    name: &'static str,
    lease: &'static str,
    upstream: Option<PathBuf>,
}

pub async fn measure(
    cluster: &mut Cluster,
    args: &ProgramsArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let programs = [
        Led {
            name: "kube-controller-manager",
            lease: "kube-controller-manager",
            upstream: args.kube_controller_manager.clone(),
        },
        Led {
            name: "csi-provisioner",
            lease: "local-csi-bowline-dev",
            upstream: args.csi_provisioner.clone(),
        },
    ];
    for led in programs {
        for by in By::both(&cluster.program.clone(), led.upstream.as_ref()) {
            let (killed, asked) = rounds(cluster, &led, &by, args.rounds, stop).await?;
            let section = report.section("Programs");
            for (signal, times) in [("SIGKILL", killed), ("SIGTERM", asked)] {
                let what = format!("{signal} of the leader to the standby's first effect: {}", led.name);
                let seconds = times.quantile(0.5).unwrap_or_default().as_secs_f64();
                section.put(&what, by.subject(), Cell::Seconds(seconds));
            }
        }
    }
    let note = "Hand-over: median of {} rounds with the default timings of leases, 15 s until one counts as lost, renewed every 2 s (sidecars: 5 s).";
    report.section("Programs").note(note.replace("{}", &args.rounds.to_string()));
    Ok(())
}

/// Each standby becomes the next leader.
async fn rounds(
    cluster: &mut Cluster,
    led: &Led,
    by: &By,
    count: usize,
    stop: &CancellationToken,
) -> Result<(Timings, Timings)> {
    let (mut killed, mut asked) = (Timings::default(), Timings::default());
    let mut leader = cluster.run(by, led.name, &words(cluster, led.name))?;
    let held = |lease: &Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|id| !id.is_empty());
    cluster.until_found(&format!("{LEASES}/{}", led.lease), held).await?;
    for round in 0..count {
        for (signal, times) in [(Signal::KILL, &mut killed), (Signal::TERM, &mut asked)] {
            if stop.is_cancelled() {
                bail!("interrupted");
            }
            eprintln!("{} of {}: hand-over {} by {signal:?}", led.name, by.subject(), round + 1);
            let mut standby = cluster.run(by, led.name, &words(cluster, led.name))?;
            tokio::time::sleep(WARM).await;
            times.worked(one(cluster, led.name, leader, signal).await?);
            if let Some(why) = standby.ended()? {
                bail!("the standby of {} ended: {why}", led.name);
            }
            leader = standby;
        }
    }
    // Its lease would keep the next subject waiting.
    leader.stop().await?;
    cluster.delete(&format!("{LEASES}/{}", led.lease)).await?;
    Ok((killed, asked))
}

/// What is asked for after the leader has ended can only be done by its successor.
async fn one(cluster: &mut Cluster, program: &str, mut leader: Process, signal: Signal) -> Result<Duration> {
    let begun = Instant::now();
    leader.end_by(signal).await?;
    let name = format!("after-{}", cluster.next());
    if program == "csi-provisioner" {
        cluster.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim(&name)).await?;
        let made = |list: &Value| {
            let mut volumes = list["items"].as_array().into_iter().flatten();
            volumes.any(|volume| volume["spec"]["claimRef"]["name"] == name.as_str())
        };
        cluster.until_found("/api/v1/persistentvolumes", made).await?;
    } else {
        cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        cluster.until_found(&account, |_| true).await?;
    }
    Ok(begun.elapsed())
}

/// As the binder leaves it for a provisioner.
fn claim(name: &str) -> Value {
    let annotations = json!({"volume.kubernetes.io/storage-provisioner": DRIVER});
    let spec = json!({"storageClassName": "now", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "16Mi"}}});
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

fn words(cluster: &Cluster, name: &str) -> Vec<String> {
    let mut words = vec![cluster.kubeconfig()];
    if name == "csi-provisioner" {
        words.push(format!("--csi-address={}", cluster.path("csi.sock").display()));
        words.extend(["--leader-election", "--leader-election-namespace=kube-system"].map(String::from));
    } else {
        words.extend(["--secure-port=0", "--controllers=serviceaccount-controller"].map(String::from));
    }
    words
}
