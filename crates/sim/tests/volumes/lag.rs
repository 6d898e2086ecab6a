//! Copies that lag: what cannot be taken back is decided on what the store has.

use std::time::Duration;

use super::world::World;
use super::{claim, class, pod, reported, unique};

/// B2: the controller starts with nodes as they were before the volume was reported and mounted, and pods as they are.
#[tokio::test(start_paused = true)]
async fn nothing_is_detached_on_an_old_copy_of_the_node() {
    let world = World::new().await;
    class(&world).await;
    let node = world.add_node("n1").await;
    let before = world.listed("/api/v1/nodes").await;
    let process = world.start(None);
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    world.in_use(&node, &[&volume]).await;
    process.end().await;
    world.delete(&app).await;

    let process = world.start_lagging(before);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let published = world.driver.state().published.len();
    assert_eq!(published, 1, "ATT-3: {:?}", world.driver.state().calls);
    process.end().await;
}
