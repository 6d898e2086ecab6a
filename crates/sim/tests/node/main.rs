//! The kubelet against an API server and a machine in memory, on paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod world;

use std::time::Duration;

use bowline_api::{ConfigMap, Pod, ServiceAccount, pod};
use bowline_machinery::effect::Part;
use serde_json::json;
use world::World;

const EIO: i32 = 5;

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
    let records = world.kubelet_dir().join("bowline-pods");
    world.host.disk.create_dir_all(&records, 0o700).await.unwrap();
    world.host.disk.create_file(&records.join("some-uid")).await.unwrap();
    let logs = world.kubelet_dir().join("pod-logs/default_p_some-uid/main");
    world.host.disk.create_dir_all(&logs, 0o755).await.unwrap();
    world.host.disk.write_atomic(&logs.join("0.log"), b"said", 0o640).await.unwrap();
    let kubelet = world.start().await;
    world.until_clean().await;
    kubelet.end().await;
}

/// The answer to the first call is lost, and the pod goes before there is a second one.
#[tokio::test(start_paused = true)]
async fn a_directory_that_may_have_been_made_is_removed() {
    let world = World::new().await;
    let kubelet = world.start().await;
    world.until("the node is up", async || world.is_ready().await).await;
    // The directory of records and its parent pass.
    world.machine.fail_later("create_dir_all.after", 2, EIO);
    let pod = world.pod(json!({"emptyDir": {}})).await;
    let failed = async || world.told("MountVolume.SetUp failed").await;
    world.until("the pod is told", failed).await;
    world.delete(&pod).await;
    world.until_clean().await;
    kubelet.end().await;
}

/// A token that cannot be renewed, but is still good, keeps nothing else from being brought up to date.
#[tokio::test(start_paused = true)]
async fn settings_change_although_a_token_cannot_be_renewed() {
    let world = World::new().await;
    let kubelet = world.start().await;
    let named = json!({"metadata": {"name": "settings", "namespace": "default"}, "data": {"colour": "old"}});
    let map: ConfigMap = world.make(named).await;
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "settings"}},
    ]);
    let pod = world.pod(json!({"projected": {"sources": sources}})).await;
    running(&world, &pod).await;
    let colour = async || world.file(&pod, "kubernetes.io~projected", "colour").await;
    assert_eq!(colour().await.as_deref(), Some("old"));

    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    world.delete::<ServiceAccount>(&serde_json::from_value(account).unwrap()).await;
    tokio::time::sleep(Duration::from_secs(3000)).await;
    world.patch(Part::Main, &map, json!({"data": {"colour": "new"}})).await;
    world.until("the settings are new", async || colour().await.as_deref() == Some("new")).await;
    let told = async || world.told("failed to fetch token").await;
    assert!(!told().await, "nobody misses anything yet");
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.until("the pod is told that its token has ended", told).await;
    world.delete(&pod).await;
    world.until_clean().await;
    kubelet.end().await;
}
