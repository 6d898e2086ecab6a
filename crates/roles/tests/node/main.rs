//! The kubelet against an API server and a machine in memory, on paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod world;

use bowline_api::{Pod, pod};
use serde_json::json;
use world::World;

async fn running(world: &World, pod: &Pod) {
    let runs = async || world.get(pod).await.is_some_and(|p| pod::phase(&p) == "Running");
    world.until("the pod runs", runs).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_leaves_nothing() {
    let world = World::new().await;
    let kubelet = world.start().await;
    let pod = world.pod(json!({"emptyDir": {"medium": "Memory"}})).await;
    running(&world, &pod).await;
    world.delete(&pod).await;
    world.until_clean().await;
    kubelet.end().await;
}

/// A process that died between the two directories of a pod, while the pod was no longer in the API.
#[tokio::test(start_paused = true)]
async fn logs_of_a_pod_that_nothing_else_is_left_of_are_removed() {
    let world = World::new().await;
    let logs = world.kubelet_dir().join("pod-logs/default_p_some-uid/main");
    world.host.disk.create_dir_all(&logs, 0o755).await.unwrap();
    world.host.disk.write_atomic(&logs.join("0.log"), b"said", 0o640).await.unwrap();
    let kubelet = world.start().await;
    world.until_clean().await;
    kubelet.end().await;
}
