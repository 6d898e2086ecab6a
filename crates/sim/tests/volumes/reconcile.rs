//! What the driver lists as published, beside what attachments say (`--reconcile-sync`).

use std::time::Duration;

use bowline_api::VolumeAttachment;

use super::world::World;
use super::{bound, claim, class, nothing_left, pod, reported, unique};

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_detached_behind_the_attachers_back_is_attached_again() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let node = world.add_node("n1").await;
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    let published = world.driver.state().published.clone();
    let calls =
        || world.driver.state().calls.iter().filter(|call| call.starts_with("ControllerPublish")).count();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(calls(), 1, "what is as it should be is left alone");
    world.driver.state().published.clear();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(world.driver.state().published, published);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(calls(), 2);
    world.delete(&app).await;
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn edge_3_6_14_a_published_volume_without_an_attachment_is_left_alone() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    let by_hand = (format!("id-pvc-{}", data.metadata.uid.as_deref().unwrap()), "id-of-n1".to_owned());
    world.driver.state().published.insert(by_hand.clone());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.driver.state().published.contains(&by_hand));
    assert!(world.list::<VolumeAttachment>().await.is_empty());
    process.end().await;
}
