//! The driver's room, as the scheduler reads it.

use std::time::Duration;

use bowline_api::{CSIStorageCapacity, StorageClass, build, bytes_of};
use tonic::Code;

use super::driver::NAME;
use super::world::World;

/// The bytes of every object.
async fn published(world: &World) -> Vec<i64> {
    let all = world.list::<CSIStorageCapacity>().await;
    all.iter().map(|object| object.capacity.as_ref().map_or(-1, |bytes| bytes_of(bytes).unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn objects_follow_the_driver_and_the_classes() {
    let world = World::new().await;
    world.add_node("n1").await;
    world.driver.state().room = 5 << 30;
    world.create(&build::class("late", NAME).wait_for_consumer().build()).await;
    world.create(&build::class("other", "other.example").wait_for_consumer().build()).await;
    let process = world.start_capacity();
    world.until("published", async || published(&world).await == [5 << 30]).await;
    world.driver.state().room = 4 << 30;
    world.until("asked again", async || published(&world).await == [4 << 30]).await;
    let calls = world.driver.state().calls.len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = world.driver.state().calls.len() - calls;
    assert!((9..=11).contains(&asked), "once a minute: {asked}");

    let object = world.list::<CSIStorageCapacity>().await.remove(0);
    world.delete(&object).await;
    world.until("made again", async || published(&world).await == [4 << 30]).await;
    let mut twin = object.clone();
    (twin.metadata.name, twin.metadata.uid, twin.metadata.resource_version) =
        (Some("twin".into()), None, None);
    world.create(&twin).await;
    world.until("the duplicate is gone", async || published(&world).await.len() == 1).await;
    for class in world.list::<StorageClass>().await {
        world.delete(&class).await;
    }
    world.until("nothing is published", async || published(&world).await.is_empty()).await;
    process.end().await;
}

/// A create whose answer is lost may be repeated: the second object goes again.
#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_answer_is_asked_again() {
    let world = World::new().await;
    world.add_node("n1").await;
    world.driver.state().room = 1 << 30;
    for _ in 0..3 {
        world.driver.fail("GetCapacity", false, Code::Unavailable);
    }
    world.create(&build::class("late", NAME).wait_for_consumer().build()).await;
    let process = world.start_capacity();
    world.until("published", async || published(&world).await == [1 << 30]).await;
    process.end().await;
}
