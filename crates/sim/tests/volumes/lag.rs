//! Copies that lag: what cannot be taken back is decided on what the store has.

use std::time::Duration;

use super::world::World;
use super::{claim, class, nothing_left, pod, reported, unique};

/// B2: the controller's watch of nodes is silent since before the volume was reported and mounted; that of pods is not.
#[tokio::test(start_paused = true)]
async fn nothing_is_detached_on_an_old_copy_of_the_node() {
    let world = World::new().await;
    class(&world).await;
    let node = world.add_node("n1").await;
    let before = world.listed("/api/v1/nodes").await;
    let process = world.start_lagging(before);
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    world.in_use(&node, &[&volume]).await;
    world.delete(&app).await;

    tokio::time::sleep(Duration::from_secs(3600)).await;
    let published = world.driver.state().published.len();
    assert_eq!(published, 1, "ATT-3: {:?}", world.driver.state().calls);
    process.end().await;
}

/// The provisioner's copy of the attachments is from before the volume was attached; those of claims and volumes are not.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_on_an_old_copy_of_the_attachments() {
    let world = World::new().await;
    class(&world).await;
    let node = world.add_node("n1").await;
    let before = world.listed("/apis/storage.k8s.io/v1/volumeattachments").await;
    let (others, provisioner) = (world.start_others(), world.start_provisioner(Some(before)));
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    world.in_use(&node, &[&volume]).await;
    world.delete(&app).await;
    world.delete(&data).await;
    world.until("claim gone", async || world.get(&data).await.is_none()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let deleted = |call: &String| call.starts_with("DeleteVolume");
    assert!(!world.driver.state().calls.iter().any(deleted), "{:?}", world.driver.state().calls);

    provisioner.end().await;
    let provisioner = world.start_provisioner(None);
    world.in_use(&node, &[]).await;
    nothing_left(&world).await;
    provisioner.end().await;
    others.end().await;
}
