//! Two replicas of each program: the leaders are killed while a call is under way, their successors finish it.

use bowline_api::{PersistentVolume, VolumeAttachment, volume};
use kube::Api;

use crate::setup::{By, Lead, Setup};
use crate::support::PATIENCE;
use crate::support::program::Program;

struct Replicas {
    controllers: Program,
    scheduler: Program,
    provisioner: Program,
    attacher: Program,
}

impl Replicas {
    async fn start(setup: &Setup, replica: u8) -> Self {
        Self {
            controllers: setup.core(By::Us, "kube-controller-manager", Lead::Shortly, replica),
            scheduler: setup.core(By::Us, "kube-scheduler", Lead::Shortly, replica),
            provisioner: setup.sidecar(By::Us, "csi-provisioner", replica).await,
            attacher: setup.sidecar(By::Us, "csi-attacher", replica).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn successors_finish_what_killed_leaders_began() {
    let setup = Setup::new().await;
    let _driver = setup.driver().await;
    let mut leaders = Replicas::start(&setup, 1).await;
    for lease in [
        "kube-controller-manager",
        "kube-scheduler",
        "local-csi-bowline-dev",
        "external-attacher-leader-local-csi-bowline-dev",
    ] {
        setup.held(lease).await;
    }
    let _standbys = Replicas::start(&setup, 2).await;
    let (_registrar, _node) = setup.node().await;
    setup.claim("first", "now").await;
    setup.bound("first").await;

    // CreateVolume has landed, its answer is on the way, and the leaders die. The scheduler's has chosen a node.
    setup.gate.hold();
    setup.claim("second", "later").await;
    setup.pod("user", &["first", "second"]).await;
    setup.until_images(2).await;
    leaders.provisioner.kill();
    leaders.scheduler.kill();
    setup.gate.release();
    setup.bound("second").await;
    assert_eq!(setup.images(), 2, "PROV-1");

    setup.running("user").await;
    let volumes: Api<PersistentVolume> = Api::all(setup.client.clone());
    assert_eq!(volumes.list(&Default::default()).await.expect("a list").items.len(), 2);

    // ControllerPublishVolume is under way.
    setup.claim("third", "now").await;
    setup.bound("third").await;
    setup.gate.hold();
    setup.pod("other", &["third"]).await;
    until_attaching(&setup).await;
    leaders.attacher.kill();
    leaders.controllers.kill();
    setup.gate.release();
    setup.running("other").await;

    setup.delete(&["other", "user"], &["first", "second", "third"]).await;
    setup.nothing_is_left().await;
    setup.no_refusals(&[]);
}

/// Waits until there is an attachment that the attacher took up and that is not attached.
async fn until_attaching(setup: &Setup) {
    let attaching = |a: &VolumeAttachment| {
        !volume::attached(a) && a.metadata.finalizers.as_ref().is_some_and(|names| !names.is_empty())
    };
    let found = async {
        while !setup.attachments().list(&Default::default()).await.expect("a list").iter().any(attaching) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("an attachment is under way");
}
