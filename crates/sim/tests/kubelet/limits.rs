//! How many volumes can be attached to this node: kept up to date, and what becomes of pods beyond it.

use std::time::Duration;

use bowline_api::{CSINode, VolumeAttachment, build, name};
use bowline_machinery::effect::Part;
use serde_json::json;

use super::driver::NAME;
use super::objects::NODE;
use super::world::World;

fn limit(world: &World) -> Option<i32> {
    let found = world.ports.informers.of::<CSINode>().named(NODE)?;
    found.spec.drivers.first()?.allocatable.as_ref()?.count
}

#[tokio::test(start_paused = true)]
async fn edge_4_18_the_attach_limit_follows_the_driver() {
    let mut world = World::new(81).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver_with(json!({"nodeAllocatableUpdatePeriodSeconds": 30})).await;
    world.until("registered", |w| limit(w) == Some(7)).await;
    world.driver.set_volumes_max(3);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(limit(&world), Some(7), "not before the period is over");
    world.until("the new limit", |w| limit(w) == Some(3)).await;
    assert_eq!(*world.refused.lock().unwrap(), [""; 0], "within a node's rights");
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_a_period_is_asked_once() {
    let mut world = World::new(82).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(false).await;
    world.until("registered", |w| limit(w) == Some(7)).await;
    world.driver.set_volumes_max(3);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(limit(&world), Some(7));
}

#[tokio::test(start_paused = true)]
async fn edge_4_17_a_pod_beyond_the_attach_limit_is_rejected() {
    let mut world = World::new(83).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver_with(json!({"attachRequired": true, "nodeAllocatableUpdatePeriodSeconds": 3600})).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.until("registered", |w| limit(w) == Some(7)).await;
    world.driver.set_volumes_max(2);
    let attachment: VolumeAttachment = serde_json::from_value(json!({
        "metadata": {"name": name::attachment("handle-data", NAME, NODE)},
        "spec": {"attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": "pv-data"}},
    }))
    .unwrap();
    let attachment = world.effects().create(&attachment).await.unwrap();
    let error = json!({"status": {"attached": false, "attachError": {"message": "full", "errorCode": 8}}});
    world.effects().patch(Part::Status, &attachment, error).await.unwrap();
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!(world.phase("p"), "Pending", "upstream waits two minutes, too");
    world.until("rejected", |w| w.phase("p") == "Failed").await;
    let status = world.live_pod("p").status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("VolumeAttachmentLimitExceeded"));
    let message = status.message.unwrap_or_default();
    let start = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. ";
    assert!(message.starts_with(start), "{message}");
    world.until("told", |w| w.events("VolumeAttachmentLimitExceeded") == [message.clone()]).await;
    world.until("the new limit, at once", |w| limit(w) == Some(2)).await;
    assert!(world.driver.calls().is_empty());
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    assert_eq!(*world.refused.lock().unwrap(), [""; 0], "within a node's rights");
}
