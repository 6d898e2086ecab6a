//! PUBLISH_READONLY: a volume published read-only is read-only wherever it shows.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{NODE, World, attach, block, block_as, code, create, mount, mount_as, target};

async fn publish_to_node(world: &World, capability: csi::VolumeCapability, readonly: bool) -> Code {
    let request = csi::ControllerPublishVolumeRequest { readonly, ..attach("v", NODE, capability) };
    code(&world.controller().controller_publish_volume(request).await)
}

#[tokio::test]
async fn the_other_way_of_publishing_is_refused() {
    for first in [false, true] {
        let world = World::new().await;
        world.create("v").await.unwrap();
        assert_eq!(publish_to_node(&world, mount(), first).await, Code::Ok);
        assert_eq!(publish_to_node(&world, mount(), first).await, Code::Ok, "repeated");
        assert_eq!(publish_to_node(&world, mount(), !first).await, Code::AlreadyExists);
        world.detach("v").await.unwrap();
        assert_eq!(publish_to_node(&world, mount(), !first).await, Code::Ok);
    }
}

#[tokio::test]
async fn targets_cannot_be_written() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    assert_eq!(publish_to_node(&world, mount(), true).await, Code::Ok);
    world.stage("v", mount()).await.unwrap();
    world.publish("v", "a", mount()).await.unwrap();
    let written = world.host.disk.write_atomic(&target("a").join("file"), b"x", 0o600).await;
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[tokio::test]
async fn devices_cannot_be_written() {
    let world = World::new().await;
    world.create_block("v").await.unwrap();
    assert_eq!(publish_to_node(&world, block(), true).await, Code::Ok);
    world.stage("v", block()).await.unwrap();
    world.publish("v", "a", block()).await.unwrap();
    assert!(world.host.kernel.loops().await.unwrap().iter().all(|device| device.read_only));
    world.machine.write_device(&target("a"), 0, b"x").unwrap_err();
}

/// The one writer of a volume on many nodes does not count those who only read.
#[tokio::test]
async fn readers_do_not_stand_in_the_way_of_the_writer() {
    for capability in [mount_as("ext4", Mode::MultiNodeSingleWriter), block_as(Mode::MultiNodeSingleWriter)] {
        let world = World::new().await;
        world.controller().create_volume(create("v", capability.clone())).await.unwrap();
        assert_eq!(publish_to_node(&world, capability.clone(), true).await, Code::Ok);
        let writer = attach("v", super::world::OTHER_NODE, capability);
        assert_eq!(code(&world.controller().controller_publish_volume(writer).await), Code::Ok);
    }
}
