//! What happens to more than one line: power cuts, partitions, people at a terminal.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline_api::{Lease, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_machinery::effect::Part;
use bowline_machinery::{Effects, Object};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cluster::{Cluster, Running, delete};
use crate::fault::Kind;
use crate::line::Upset;
use crate::process::Program;

/// Longer than a lease lasts.
const STALL: Duration = Duration::from_secs(25);
const PARTITION: Duration = Duration::from_secs(40);
/// People set clocks by this much.
const STEP_SECONDS: i64 = 3600;

/// Does what the plan says, one after the other.
pub async fn follow(cluster: Weak<Cluster>, mut waiting: UnboundedReceiver<Upset>) {
    while let Some(upset) = waiting.recv().await {
        let Some(cluster) = cluster.upgrade() else { return };
        happen(&cluster, &upset).await;
    }
}

async fn happen(cluster: &Arc<Cluster>, upset: &Upset) {
    match upset.fault.kind {
        Kind::Stall => each(cluster, |name, one| {
            if upset.process.starts_with(name) {
                one.life.stall(STALL);
            }
        }),
        Kind::Partition => each(cluster, |name, one| {
            if upset.process.starts_with(name) {
                one.life.cut_off(PARTITION);
            }
        }),
        Kind::DriverRestart => each(cluster, |_, one| {
            if one.program == Program::Driver {
                one.kill();
            }
        }),
        Kind::ApiOutage => each(cluster, |_, one| one.life.cut_off(PARTITION)),
        Kind::Reboot => reboot(cluster),
        Kind::ClockStep => {
            cluster.wall.step(if upset.fault.nth.is_multiple_of(2) { STEP_SECONDS } else { -STEP_SECONDS })
        }
        Kind::StolenLease => steal(cluster).await,
        Kind::Edited => edit(cluster).await,
        Kind::Deleted => delete_a_pod(cluster).await,
        _ => {}
    }
}

fn each(cluster: &Cluster, act: impl Fn(&str, &Running)) {
    cluster.processes().iter().for_each(|(name, one)| act(name, one));
}

/// Everything on the machine of the nodes ends at once; files stay.
fn reboot(cluster: &Cluster) {
    each(cluster, |_, one| {
        if one.program.on_nodes() {
            one.kill();
        }
    });
    cluster.shared.oracle().power_cut();
    cluster.machine.reboot();
}

/// Writes another holder into every lease of leaders.
async fn steal(cluster: &Cluster) {
    cluster.shared.oracle().stolen = true;
    let person = cluster.person();
    let programs = [Program::ControllerManager, Program::Scheduler, Program::Provisioner, Program::Attacher];
    for (name, namespace, _) in programs.into_iter().filter_map(Program::lease) {
        let Ok(Some(mut lease)) = person.get_live::<Lease>(namespace, &name).await else { continue };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some("a person".into());
            spec.lease_duration_seconds = Some(1);
        }
        let _ = person.replace(Part::Main, &lease).await;
    }
}

/// Labels and annotates everything: whatever was read before is old now.
pub(crate) async fn edit(cluster: &Cluster) {
    let person = cluster.person();
    let (claims, volumes, attachments, pods) = {
        let oracle = cluster.shared.oracle();
        (oracle.claims.clone(), oracle.volumes.clone(), oracle.attachments.clone(), oracle.pods.clone())
    };
    for claim in claims.values() {
        annotate::<PersistentVolumeClaim>(&person, claim).await;
    }
    for volume in volumes.values() {
        annotate::<PersistentVolume>(&person, volume).await;
    }
    for attachment in attachments.values() {
        annotate::<VolumeAttachment>(&person, attachment).await;
    }
    for pod in pods.values() {
        annotate::<Pod>(&person, pod).await;
    }
}

async fn annotate<K: Object>(person: &Effects, object: &K) {
    let version = object.meta().resource_version.clone().unwrap_or_default();
    let edited = json!({"edited-by": "a-person", "edited-at": version});
    let patch = json!({"metadata": {"annotations": edited, "labels": edited}});
    let _ = person.patch(Part::Main, object, patch).await;
}

/// `kubectl delete pod --force`: the object goes at once, whatever still runs.
async fn delete_a_pod(cluster: &Cluster) {
    let pod = cluster.shared.oracle().pods.values().next().cloned();
    if let Some(pod) = pod {
        delete(&cluster.person(), pod.as_ref(), Some(0)).await;
    }
}
