//! Every sidecar in a real cluster. One script carries the local driver through all operations, first with upstream's
//! sidecars, then with ours; what each of them writes to the API is compared.

mod cluster;
mod objects;
mod roll;
mod script;
mod writes;

use crate::setup::By;
use cluster::SidecarCluster;
use roll::Running;
use writes::Writes;

/// Runs the script and returns what the sidecars wrote.
async fn carried_by(by: By) -> Writes {
    let cluster = SidecarCluster::start().await;
    let _sidecars = cluster.sidecars(by).await;
    cluster.whole_script().await;
    cluster.setup.no_refusals(&[]);
    let writes = writes::written(&cluster.setup.server.audited());
    cluster.end();
    writes
}

/// The writes are what ours are to be compared with: each sidecar and each operation has left some.
#[tokio::test(flavor = "multi_thread")]
async fn upstreams_sidecars_carry_our_driver_through_the_script() {
    let writes = carried_by(By::Upstream).await;
    for write in [
        "csi-provisioner create persistentvolumes pvc-UID: spec.claimRef.name=\"restored\"",
        "csi-provisioner delete persistentvolumes pvc-UID",
        "csi-resizer changes persistentvolumeclaims disk: +status.capacity.storage=\"128Mi\"",
        "csi-resizer changes persistentvolumeclaims data: +status.currentVolumeAttributesClassName=\"far\"",
        "csi-snapshotter changes volumesnapshotcontents snapcontent-UID: +status.readyToUse=true",
        "snapshot-controller changes volumesnapshots picture: +status.readyToUse=true",
        "snapshot-controller changes volumegroupsnapshots album: +status.readyToUse=true",
    ] {
        assert!(writes.contains(write), "{write} is not among {writes:#?}");
    }
}

/// Of the provisioner: CreateVolume and DeleteVolume are under way when it is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn rolling_the_provisioner_in_the_middle_of_a_call_loses_nothing() {
    let cluster = SidecarCluster::start().await;
    let mut running = Running::start(&cluster, By::Upstream, &["csi-provisioner"]).await;
    for name in ["to-ours", "to-upstream"] {
        running.provision(name).await;
    }
    assert_eq!(cluster.kept("volumes"), 2, "PROV-1");
    for name in ["to-ours", "to-upstream"] {
        running.delete_volume(name).await;
    }
    cluster.nothing_remains().await;
    cluster.setup.no_refusals(&[]);
}
