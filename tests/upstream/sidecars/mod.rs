//! Every sidecar in a real cluster. One script carries the local driver through all operations, first with upstream's
//! sidecars, then with ours; what each of them writes to the API is compared.

mod cluster;
mod compare;
mod objects;
mod roll;
mod script;
mod writes;

use crate::setup::By;
use cluster::SidecarCluster;
use roll::Running;
use script::Operations;
use writes::Writes;

/// Sidecars of ours that are compared; in their place upstream's run where a test wants that.
const OURS: &[&str] = &["csi-provisioner", "csi-resizer"];
const ALL: Operations = Operations { groups: true, restore: true };
/// Restores and groups are only carried by upstream's so far.
const BY_OURS: Operations = Operations { groups: false, restore: false };
/// What only the other operations write.
const NOT_BY_OURS: [&str; 4] = ["restored", "album", "HASH", "group"];

/// Runs the script with these of our sidecars, and upstream's in the other places; returns what all of them wrote.
async fn carried_by(ours: &[&str], operations: Operations) -> Writes {
    let cluster = SidecarCluster::start().await;
    let mut sidecars = cluster.sidecars(ours).await;
    cluster.script(operations).await;
    cluster.setup.no_refusals(&[]);
    let writes = writes::written(&cluster.setup.server.audited());
    for program in sidecars.iter_mut().filter(|program| ours.contains(&program.name.as_str())) {
        assert!(program.end().success(), "{} ends", program.name);
    }
    cluster.end();
    writes
}

/// Only of those programs and operations that there are of both.
fn comparable(writes: Writes) -> Writes {
    let is_of_ours = |write: &String| OURS.iter().any(|name| write.starts_with(&format!("{name} ")));
    let is_done_by_ours = |write: &String| !NOT_BY_OURS.iter().any(|part| write.contains(part));
    writes.into_iter().filter(|write| is_of_ours(write) && is_done_by_ours(write)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn our_provisioner_and_resizer_write_what_upstreams_write() {
    let upstream = carried_by(&[], ALL).await;
    // Each sidecar and each operation has left something to compare with.
    for write in [
        "csi-provisioner create persistentvolumes pvc-UID: spec.claimRef.name=\"restored\"",
        "csi-provisioner delete persistentvolumes pvc-UID",
        "csi-resizer changes persistentvolumeclaims disk: +status.capacity.storage=\"128Mi\"",
        "csi-resizer changes persistentvolumeclaims data: +status.currentVolumeAttributesClassName=\"far\"",
        "csi-snapshotter changes volumesnapshotcontents snapcontent-UID: +status.readyToUse=true",
        "snapshot-controller changes volumesnapshots picture: +status.readyToUse=true",
        "snapshot-controller changes volumegroupsnapshots album: +status.readyToUse=true",
    ] {
        assert!(upstream.contains(write), "{write} is not among {upstream:#?}");
    }
    let ours = carried_by(OURS, BY_OURS).await;
    compare::assert_named(&comparable(upstream), &comparable(ours));
}

/// Each call of the sidecars that there are of both is under way when they are replaced.
#[tokio::test(flavor = "multi_thread")]
async fn rolling_between_upstreams_sidecars_and_ours_in_the_middle_of_a_call_loses_nothing() {
    let cluster = SidecarCluster::start().await;
    let mut running = Running::start(&cluster, By::Upstream, OURS).await;
    let both = ["to-ours", "to-upstream"];
    for name in both {
        running.provision(name).await;
    }
    assert_eq!(cluster.kept("volumes"), 2, "PROV-1");
    for name in both {
        running.clone_volume(&format!("{name}-copy"), name).await;
    }
    assert_eq!(cluster.kept("volumes"), 4, "PROV-1");
    for name in both {
        running.expand(name).await;
    }
    for name in both {
        running.modify(name).await;
    }
    for name in both {
        running.delete_volume(name).await;
    }
    for name in both {
        running.delete_volume(&format!("{name}-copy")).await;
    }
    cluster.nothing_remains().await;
    cluster.setup.no_refusals(&[]);
}
