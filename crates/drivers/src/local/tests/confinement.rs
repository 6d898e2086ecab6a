//! No id leads out of its directory in the pool.

use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{World, attach, code, create, mount, publish, stage};

const HOSTILE: [&str; 9] =
    ["../x", "..", ".", "a/b", "/etc/passwd", "a\0b", ".hidden", "a..b", "volumes/../.."];

#[tokio::test]
async fn hostile_ids_touch_nothing() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let before = world.machine.files();
    let long = "x".repeat(300);
    for id in HOSTILE.into_iter().chain([long.as_str()]) {
        let found = [
            code(&world.controller().controller_publish_volume(attach(id, "node-1", mount())).await),
            code(&world.node().node_stage_volume(stage_at(id)).await),
            code(&world.node().node_publish_volume(publish_at(id)).await),
        ];
        assert_eq!(found, [Code::NotFound; 3], "{id:?}");
        let undone = [
            code(&world.delete(id).await),
            code(&world.detach(id).await),
            code(&world.unpublish(id, "a").await),
        ];
        assert_eq!(undone, [Code::Ok; 3], "{id:?}");
    }
    assert_eq!(world.machine.files(), before);
}

fn stage_at(id: &str) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest { staging_target_path: "/var/lib/staging".into(), ..stage(id, mount()) }
}

fn publish_at(id: &str) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest { volume_id: id.into(), ..publish("v", "a", mount()) }
}

/// Names are the caller's and may be anything; the ids made from them are harmless and work.
#[tokio::test]
async fn hostile_names_become_harmless_ids() {
    let world = World::new().await;
    let long = "n".repeat(128);
    for name in ["../x", "..", "a/b", "/etc/passwd", ".hidden", "snow ☃", long.as_str()] {
        let made = world.controller().create_volume(create(name, mount())).await.unwrap().into_inner();
        let id = made.volume.unwrap().volume_id;
        assert!(id.starts_with("vol-") && id.len() <= 128, "{id}");
        assert!(world.exists(&world.image(&id)).await);
        world.attach(&id, mount()).await.unwrap();
        world.stage(&id, mount()).await.unwrap();
        world.unstage(&id).await.unwrap();
        world.detach(&id).await.unwrap();
        world.delete(&id).await.unwrap();
        world.assert_clean(name).await;
    }
}

/// Somebody who knows the hash cannot take over another's volume by name.
#[tokio::test]
async fn a_name_that_equals_a_hashed_id_is_another_volume() {
    let world = World::new().await;
    let made = world.controller().create_volume(create("a/b", mount())).await.unwrap().into_inner();
    let id = made.volume.unwrap().volume_id;
    let answer = world.controller().create_volume(create(&id, mount())).await;
    assert_eq!(code(&answer), Code::AlreadyExists);
}
