//! Resident memory of each program alone, idle.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio_util::sync::CancellationToken;

use super::By;
use super::cluster::{Cluster, KUBELET};
use crate::args::ProgramsArgs;
use crate::memory;
use crate::report::{Cell, Report};

/// Time for lists and first passes to settle before memory is read.
const SETTLE: Duration = Duration::from_secs(5);

/// The controllers that there are here: upstream's program has more, which would not be comparable.
const CONTROLLERS: &str = "--controllers=persistentvolume-binder,attachdetach,pv-protection,pvc-protection,garbagecollector,nodelifecycle,serviceaccount,root-ca-certificate-publisher-controller";

pub async fn measure(
    cluster: &mut Cluster,
    args: &ProgramsArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let programs = [
        ("kube-controller-manager", args.kube_controller_manager.as_ref()),
        ("kube-scheduler", args.kube_scheduler.as_ref()),
        ("kubelet", None),
        ("csi-provisioner", args.csi_provisioner.as_ref()),
        ("csi-attacher", None),
        ("csi-node-driver-registrar", None),
    ];
    for (name, upstream) in programs {
        for by in By::both(&cluster.program.clone(), upstream) {
            if stop.is_cancelled() {
                bail!("interrupted");
            }
            eprintln!("{name} of {}: memory", by.subject());
            let kib = idle(cluster, &by, name).await?;
            let section = report.section("Programs");
            section.put(&format!("resident memory, idle: {name}"), by.subject(), Cell::kib(kib));
        }
    }
    let note = format!("Each program alone on our API server, {} s after its start.", SETTLE.as_secs());
    report.section("Programs").note(note);
    Ok(())
}

async fn idle(cluster: &mut Cluster, by: &By, name: &str) -> Result<u64> {
    let words = words(cluster, name)?;
    let mut process = cluster.run(by, name, &words)?;
    tokio::time::sleep(SETTLE).await;
    if let Some(why) = process.ended()? {
        bail!("{name} of {} ended: {why}", by.subject());
    }
    let kib = memory::resident(process.pid()?)?.now_kib;
    process.stop().await?;
    Ok(kib)
}

fn words(cluster: &Cluster, name: &str) -> Result<Vec<String>> {
    let csi = format!("--csi-address={}", cluster.path("csi.sock").display());
    Ok(match name {
        "kubelet" => vec![
            cluster.node_kubeconfig()?,
            format!("--root-dir={}", cluster.path("kubelet").display()),
            format!("--hostname-override={KUBELET}"),
            format!("--client-ca-file={}", cluster.path("data/pki/ca.crt").display()),
            format!("--port={}", crate::apiserver::ours::free_port()?),
            "--node-ip=127.0.0.1".to_owned(),
            "--address=127.0.0.1".to_owned(),
            "--healthz-port=0".to_owned(),
        ],
        "csi-node-driver-registrar" => vec![
            csi,
            format!("--kubelet-registration-path={}", cluster.path("csi.sock").display()),
            format!("--plugin-registration-path={}", cluster.path("registry").display()),
        ],
        "csi-provisioner" | "csi-attacher" => vec![cluster.kubeconfig(), csi],
        _ => {
            let controllers = (name == "kube-controller-manager").then(|| CONTROLLERS.to_owned());
            let shared = ["--leader-elect=false", "--secure-port=0"].map(String::from);
            controllers.into_iter().chain(shared).chain([cluster.kubeconfig()]).collect()
        }
    })
}
