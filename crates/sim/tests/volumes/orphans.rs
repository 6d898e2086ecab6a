//! Attachments whose volume object was removed by force.

use bowline_api::{Meta, PersistentVolume, VolumeAttachment};
use bowline_machinery::effect::Part;
use serde_json::json;
use std::time::Duration;

use super::world::World;
use super::{claim, class, pod, reported, unique};

/// B11: finalizers are taken off by hand, so that the object goes although the volume is attached and mounted.
#[tokio::test(start_paused = true)]
async fn a_volume_object_removed_by_force_leaves_no_attachment() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let node = world.add_node("n1").await;
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    world.in_use(&node, &[&volume]).await;

    let object = world.list::<PersistentVolume>().await.remove(0);
    world.delete(&object).await;
    let gone = async || match world.get(&object).await {
        Some(object) => {
            let held = object.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty());
            if held {
                world.patch(Part::Main, &object, json!({"metadata": {"finalizers": []}})).await;
            }
            false
        }
        None => true,
    };
    world.until("removed by force", gone).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.driver.state().published.len(), 1, "ATT-3: it is mounted");

    // A new process knows only what the API has.
    process.end().await;
    let process = world.start(None);
    world.delete(&app).await;
    world.in_use(&node, &[]).await;
    world.until("detached", async || world.driver.state().published.is_empty()).await;
    world.until("no attachment", async || world.list::<VolumeAttachment>().await.is_empty()).await;
    assert!(!reported(&world, &node, &volume).await, "{}", node.name());
    process.end().await;
}
