//! Whole journeys of a pod with a volume on this node.

use std::time::Duration;

use bowline_api::{CSINode, Meta, build, keys, node};
use tonic::Code;

use super::driver::{Fault, NAME};
use super::objects::NODE;
use super::world::World;

async fn world(attach_required: bool) -> World {
    let mut world = World::new(7).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(attach_required).await;
    world
}

#[tokio::test(start_paused = true)]
async fn the_node_registers_itself_and_its_driver() {
    let world = world(false).await;
    world.until("driver told", |w| w.driver.told() == [(true, String::new())]).await;
    world.until("ready", |w| w.node().is_some_and(|n| node::ready(&n))).await;
    let node = world.node().unwrap();
    assert_eq!(node.label(keys::HOSTNAME_LABEL), Some(NODE));
    assert_eq!(node.label("topology.test/node"), Some("here"));
    assert_eq!(node.annotation(keys::CSI_NODE_ID), Some("{\"test.csi.example\":\"node-of-the-driver\"}"));
    let csi_node = world.ports.informers.of::<CSINode>().named(NODE).unwrap();
    let driver = &csi_node.spec.drivers[0];
    assert_eq!((driver.name.as_str(), driver.node_id.as_str()), (NAME, "node-of-the-driver"));
    assert_eq!(driver.allocatable.as_ref().unwrap().count, Some(7));
    assert_eq!(csi_node.meta().owner_references.as_ref().unwrap()[0].uid, node.uid());
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_stays_away_leaves_the_csi_node_and_one_that_returns_does_not() {
    let mut world = world(false).await;
    world.until("told", |w| !w.driver.told().is_empty()).await;
    let drivers = |w: &World| w.ports.informers.of::<CSINode>().named(NODE).unwrap().spec.drivers.len();
    world.stop_driver().await;
    world.start_driver().await;
    world.until("told again", |w| w.driver.told().len() == 2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(drivers(&world), 1);
    world.stop_driver().await;
    world.until("entry removed", |w| drivers(w) == 0).await;
    world.until("id removed", |w| w.node().unwrap().annotation(keys::CSI_NODE_ID) == Some("{}")).await;
    assert_eq!(world.node().unwrap().label("topology.test/node"), Some("here"), "labels stay");
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_its_volume_and_leaves_nothing_behind() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = build::pod("writer").shell("sleep 1000").mount("data", "/data").grace_seconds(5).build();
    let pod = world.pod(pod).await;
    world.until("running", |w| w.phase("writer") == "Running").await;
    assert_eq!(world.driver.calls(), ["stage handle-data", "publish handle-data"]);
    let context = &world.driver.contexts()[0];
    assert_eq!(context.get(keys::POD_NAME).map(String::as_str), Some("writer"));
    let status = world.live_pod("writer").status.unwrap();
    let main = &status.container_statuses.as_ref().unwrap()[0];
    assert!(main.ready && main.container_id.as_ref().unwrap().starts_with("bowline://"));
    assert_eq!(world.events("Started"), ["Container started"]);

    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("writer") == "gone").await;
    let calls = world.driver.calls();
    assert_eq!(calls[2..], ["unpublish handle-data", "unstage handle-data"]);
    world.assert_clean().await;
    assert!(world.fake.containers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_device_goes_the_same_way() {
    let world = world(false).await;
    world.bound_claim("raw", true, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").device("raw", "/dev/xvda").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.events("SuccessfulMountVolume").len(), 2);
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("unstaged", |w| w.driver.is_idle()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn an_attachable_volume_waits_for_both_hands() {
    let world = world(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    let volume = "kubernetes.io/csi/test.csi.example^handle-data".to_owned();
    let in_use = |w: &World| w.node().is_some_and(|n| node::volumes_in_use(&n).contains(&volume));
    world.until("reported in use", in_use).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.driver.calls().is_empty(), "not attached yet");
    world.attach_all(&["data"]).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("no longer in use", |w| !in_use(w)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn lost_and_refused_answers_are_made_good() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.driver.plan("stage", Fault::Refuse(Code::Internal));
    world.driver.plan("stage", Fault::Lose(Code::DeadlineExceeded));
    world.driver.plan("publish", Fault::Lose(Code::Unavailable));
    world.driver.plan("unpublish", Fault::Lose(Code::Aborted));
    world.driver.plan("unstage", Fault::Refuse(Code::Internal));
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let failed = world.events("FailedMount");
    let expected = "MountVolume.MountDevice failed for volume \"pv-data\" : rpc error: code = Internal desc = as planned";
    assert!(failed.iter().any(|text| text == expected), "{failed:?}");
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}

/// Every wait longer than 10 s has an event, also while the driver says nothing.
#[tokio::test(start_paused = true)]
async fn calls_that_take_long_are_told_while_they_last() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    for call in ["stage", "unstage"] {
        world.driver.plan(call, Fault::Delay(Duration::from_secs(60)));
    }
    let told = |rpc: &str| {
        format!("driver {NAME} has not answered {rpc} for volume \"handle-data\" for 10s; waiting up to 120s")
    };
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("told", |w| w.events("FailedMount").contains(&told("NodeStageVolume"))).await;
    assert_ne!(world.phase("p"), "Running");
    world.until("running", |w| w.phase("p") == "Running").await;
    world.delete(&pod, None).await;
    world.until("told", |w| w.events("FailedUnmount").contains(&told("NodeUnstageVolume"))).await;
    world.until("idle", |w| w.driver.is_idle()).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_while_its_stage_is_uncertain_is_still_unstaged() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    for _ in 0..20 {
        world.driver.plan("stage", Fault::Lose(Code::DeadlineExceeded));
    }
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("tried", |w| w.driver.calls().len() > 1).await;
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_only_means_one_pod_only() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOncePod").await;
    let first = world.pod(build::pod("first").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("first") == "Running").await;
    world.pod(build::pod("second").shell("sleep 9").mount("data", "/data").build()).await;
    let text = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    world.until("told", |w| w.events("FailedMount").iter().any(|e| e.ends_with(text))).await;
    world.delete(&first, None).await;
    world.until("its turn", |w| w.phase("second") == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_force_deleted_pod_is_taken_down() {
    let world = world(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.delete(&pod, Some(0)).await;
    world.until("idle", |w| w.driver.is_idle() && w.fake.containers().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}
