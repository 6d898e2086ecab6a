//! The kubelet asks for nothing that a node may not have: the Node authorizer and NodeRestriction refuse none of it.

use std::time::Duration;

use bowline_api::{CSINode, Meta, Node, build};
use serde_json::json;

use super::objects::NODE;
use super::world::World;

/// Attached volumes with secrets, devices, tokens, config maps, events, a restart, and the way back.
#[tokio::test(start_paused = true)]
async fn a_journey_needs_no_more_than_a_nodes_rights() {
    let mut world = World::new(51).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(true).await;
    let secret = json!({"metadata": {"name": "key", "namespace": "default"}, "stringData": {"a": "b"}});
    let secret: bowline_api::Secret = serde_json::from_value(secret).unwrap();
    world.effects().create(&secret).await.unwrap();
    let reference = json!({"name": "key", "namespace": "default"});
    let source = json!({"nodeStageSecretRef": reference, "nodePublishSecretRef": reference});
    world.bound_claim_with("data", false, "ReadWriteOnce", source).await;
    world.bound_claim("raw", true, "ReadWriteOnce").await;
    world.attach_all(&["data", "raw"]).await;
    let pod =
        build::pod("p").shell("sleep 9").mount("data", "/data").device("raw", "/dev/raw").grace_seconds(1);
    let pod = world.pod(pod.build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.stop_kubelet().await;
    world.start_kubelet().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    assert_eq!(*world.refused.lock().unwrap(), [""; 0]);
    assert!(world.drain().await);
    world.assert_clean().await;
}

/// A node may not watch its CSINode: it looks now and then.
#[tokio::test(start_paused = true)]
async fn a_csi_node_that_was_deleted_comes_back_with_its_drivers() {
    let world = World::with_claim(52).await;
    let knows = |w: &World| {
        let found = w.ports.informers.of::<CSINode>().named(NODE);
        found.is_some_and(|n| n.spec.drivers.iter().any(|d| d.name == super::driver::NAME))
    };
    world.until("registered", knows).await;
    let found = world.ports.informers.of::<CSINode>().named(NODE).unwrap();
    world.effects().delete(found.as_ref(), None).await.unwrap();
    let uid = found.uid().to_owned();
    let back = |w: &World| w.ports.informers.of::<CSINode>().named(NODE).is_some_and(|n| n.uid() != uid);
    world.until("another one", back).await;
    world.until("with its driver", knows).await;
    let node: Node = world.node().unwrap();
    assert!(node.label("topology.test/node").is_some());
    assert_eq!(*world.refused.lock().unwrap(), [""; 0]);
}
