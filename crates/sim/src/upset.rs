//! What happens to more than one line: power cuts, partitions, people at a terminal.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline_api::{Lease, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_machinery::effect::Part;
use bowline_machinery::{Effects, Object};
use jiff::SignedDuration;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cluster::{Cluster, NODES, Running, delete};
use crate::fault::Kind;
use crate::line::Upset;
use crate::process::Program;

/// Longer than a lease lasts.
const STALL: Duration = Duration::from_secs(25);
const PARTITION: Duration = Duration::from_secs(40);
/// People set clocks by this much.
const STEP: SignedDuration = SignedDuration::from_hours(1);
/// How long a machine takes to start.
const BOOT: Duration = Duration::from_secs(8);
/// Longer than a node may be silent before it counts as not ready.
const DEATH: Duration = Duration::from_secs(70);
/// Longer than attach and detach wait for a node that is not ready.
const DEATH_LONG: Duration = Duration::from_secs(480);

/// Does what the plan says, one after the other.
pub async fn follow(cluster: Weak<Cluster>, mut waiting: UnboundedReceiver<Upset>) {
    while let Some(upset) = waiting.recv().await {
        let Some(cluster) = cluster.upgrade() else { return };
        happen(&cluster, &upset).await;
        let _ = upset.done.send(());
    }
}

async fn happen(cluster: &Arc<Cluster>, upset: &Upset) {
    match upset.fault.kind {
        Kind::Stall => each(cluster, |name, one| {
            if upset.process.starts_with(name) {
                one.life.stall(STALL);
            }
        }),
        Kind::DriverStall => each(cluster, |_, one| {
            if one.program == Program::Driver {
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
        Kind::NodeReboot => cluster.power_cut(node_of(cluster, upset), BOOT),
        Kind::NodeDeath => {
            let lasts = if upset.fault.nth.is_multiple_of(2) { DEATH } else { DEATH_LONG };
            cluster.power_cut(node_of(cluster, upset), lasts);
        }
        Kind::ClockStep => {
            let by = if upset.fault.nth.is_multiple_of(2) { STEP } else { -STEP };
            if let Some(program) = program_of(cluster, upset) {
                cluster.machine_of(program).step(by);
            }
        }
        Kind::StolenLease => steal(cluster).await,
        Kind::Edited => edit(cluster).await,
        Kind::Deleted => delete_a_pod(cluster, upset.fault.nth as usize).await,
        _ => {}
    }
}

/// The program whose effect it was.
fn program_of(cluster: &Cluster, upset: &Upset) -> Option<Program> {
    let processes = cluster.processes();
    let found = processes.iter().find(|(name, _)| upset.process.starts_with(name.as_str()));
    found.map(|(_, one)| one.program)
}

/// The node whose effect it was; of the control plane's, any.
fn node_of(cluster: &Cluster, upset: &Upset) -> usize {
    let node = program_of(cluster, upset).and_then(Program::node);
    node.unwrap_or(upset.fault.nth as usize / 2 % NODES)
}

fn each(cluster: &Cluster, act: impl Fn(&str, &Running)) {
    cluster.processes().iter().for_each(|(name, one)| act(name, one));
}

/// Everything on the machine of the nodes ends at once; files stay.
fn reboot(cluster: &Cluster) {
    each(cluster, |_, one| {
        if one.program.node().is_some() {
            one.kill();
        }
    });
    cluster.shared.oracle().power_cut();
    cluster.machine.reboot();
    for node in 0..NODES {
        cluster.machine_of(Program::Kubelet(node)).power_cut(BOOT);
    }
}

/// Writes another holder into every lease of leaders.
async fn steal(cluster: &Cluster) {
    cluster.shared.oracle().stolen();
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
async fn delete_a_pod(cluster: &Cluster, nth: usize) {
    let pods: Vec<_> = cluster.shared.oracle().pods.values().cloned().collect();
    let pod = pods.get(nth % pods.len().max(1));
    if let Some(pod) = pod {
        delete(&cluster.person(), pod.as_ref(), Some(0)).await;
    }
}
