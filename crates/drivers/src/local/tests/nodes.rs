//! Several named nodes on one machine: who may have a volume when another node has it.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{
    Answer, NODE, OTHER_NODE, World, attach, block, block_as, code, create, mount, mount_as, publish, stage,
    staging, target, text,
};

async fn attach_to(world: &World, node: &str, capability: csi::VolumeCapability, read_only: bool) -> Answer {
    let request =
        csi::ControllerPublishVolumeRequest { readonly: read_only, ..attach("v", node, capability) };
    world.controller().controller_publish_volume(request).await.map(drop)
}

/// Staging and target of the other node, on the other node's socket.
async fn stage_other(world: &World, capability: csi::VolumeCapability) -> Answer {
    world.host.disk.create_dir_all(&staging("v2"), 0o755).await.unwrap();
    let path = text(staging("v2"));
    let request = csi::NodeStageVolumeRequest { staging_target_path: path, ..stage("v", capability) };
    world.other_node().node_stage_volume(request).await.map(drop)
}

async fn publish_other(world: &World, name: &str, capability: csi::VolumeCapability) -> Answer {
    let path = text(staging("v2"));
    let request =
        csi::NodePublishVolumeRequest { staging_target_path: path, ..publish("v", name, capability) };
    world.other_node().node_publish_volume(request).await.map(drop)
}

async fn take_down_other(world: &World, name: &str) {
    let request = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: text(target(name)) };
    world.other_node().node_unpublish_volume(request).await.unwrap();
    let staging_target_path = text(staging("v2"));
    let request = csi::NodeUnstageVolumeRequest { volume_id: "v".into(), staging_target_path };
    world.other_node().node_unstage_volume(request).await.unwrap();
}

#[tokio::test]
async fn a_second_node_is_told_who_has_the_volume() {
    for mode in [
        Mode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly,
        Mode::SingleNodeSingleWriter,
        Mode::SingleNodeMultiWriter,
    ] {
        let world = World::new().await;
        world.controller().create_volume(create("v", mount_as("ext4", mode))).await.unwrap();
        attach_to(&world, NODE, mount_as("ext4", mode), false).await.unwrap();
        let refused = attach_to(&world, OTHER_NODE, mount_as("ext4", mode), false).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{mode:?}");
        assert!(refused.message().contains(NODE), "{mode:?}: {}", refused.message());
    }
}

#[tokio::test]
async fn each_node_says_where_it_is() {
    let world = World::new().await;
    let info = world.other_node().node_get_info(csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.node_id, OTHER_NODE);
}

/// What one node writes the other reads, and each may leave first.
#[tokio::test]
async fn two_nodes_share_a_filesystem() {
    let many = || mount_as("ext4", Mode::MultiNodeMultiWriter);
    for first_leaves_first in [true, false] {
        let world = World::new().await;
        world.staged("v", many()).await;
        world.publish("v", "a", many()).await.unwrap();
        attach_to(&world, OTHER_NODE, many(), false).await.unwrap();
        stage_other(&world, many()).await.unwrap();
        stage_other(&world, many()).await.expect("again");
        publish_other(&world, "b", many()).await.unwrap();
        world.host.disk.write_atomic(&target("a").join("f"), b"shared", 0o600).await.unwrap();
        assert_eq!(world.host.disk.read(&target("b").join("f")).await.unwrap(), b"shared");

        if first_leaves_first {
            world.unpublish("v", "a").await.unwrap();
            world.unstage("v").await.unwrap();
            assert_eq!(world.host.disk.read(&target("b").join("f")).await.unwrap(), b"shared");
            take_down_other(&world, "b").await;
        } else {
            take_down_other(&world, "b").await;
            world.unpublish("v", "a").await.unwrap();
            world.unstage("v").await.unwrap();
        }
        let request = csi::ControllerUnpublishVolumeRequest { volume_id: "v".into(), ..Default::default() };
        world.controller().controller_unpublish_volume(request).await.unwrap();
        world.delete("v").await.unwrap();
        world.assert_clean("both gone").await;
    }
}

/// A block volume has one device for both; it stays as long as either wants it.
#[tokio::test]
async fn two_nodes_share_a_device() {
    let many = || block_as(Mode::MultiNodeMultiWriter);
    let world = World::new().await;
    world.staged("v", many()).await;
    attach_to(&world, OTHER_NODE, many(), false).await.unwrap();
    stage_other(&world, many()).await.unwrap();
    publish_other(&world, "b", many()).await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.loops().len(), 1, "the other node has it");
    assert_eq!(code(&world.publish("v", "a", many()).await), Code::FailedPrecondition, "not staged here");
    take_down_other(&world, "b").await;
    assert_eq!(world.machine.loops(), []);
}

/// Without a record it cannot be told which node has what; each takes down its own, and the last one the device.
#[tokio::test]
async fn two_nodes_take_down_a_quarantined_volume() {
    for many in [mount_as("ext4", Mode::MultiNodeMultiWriter), block_as(Mode::MultiNodeMultiWriter)] {
        let world = World::new().await;
        world.staged("v", many.clone()).await;
        world.publish("v", "a", many.clone()).await.unwrap();
        attach_to(&world, OTHER_NODE, many.clone(), false).await.unwrap();
        stage_other(&world, many.clone()).await.unwrap();
        publish_other(&world, "b", many.clone()).await.unwrap();
        let world = world.quarantine("v").await;
        world.unpublish("v", "a").await.unwrap();
        world.unstage("v").await.expect("the other node does not keep this one from it");
        assert_eq!(world.machine.loops().len(), 1, "the other node has it");
        take_down_other(&world, "b").await;
        assert_eq!((world.machine.loops(), world.machine.mounts()), (Vec::new(), Vec::new()));
    }
}

/// Goal: what a full disk kept from being recorded keeps no volume from being deleted.
#[tokio::test]
async fn a_device_whose_unstaging_was_not_recorded_is_let_go() {
    let many = || block_as(Mode::MultiNodeMultiWriter);
    let world = World::new().await;
    world.staged("v", many()).await;
    attach_to(&world, OTHER_NODE, many(), false).await.unwrap();
    stage_other(&world, many()).await.unwrap();
    world.machine.fail_next("write_atomic", 5);
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.planned(), [] as [String; 0], "it was tried");
    let world = world.restart().await;
    take_down_other(&world, "b").await;
    let request = csi::ControllerUnpublishVolumeRequest { volume_id: "v".into(), ..Default::default() };
    world.controller().controller_unpublish_volume(request).await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// A staging that fails takes back what it did, not what another node has.
#[tokio::test]
async fn a_failed_staging_leaves_the_other_node_its_device() {
    let many = || block_as(Mode::MultiNodeMultiWriter);
    let world = World::new().await;
    world.staged("v", many()).await;
    attach_to(&world, OTHER_NODE, many(), false).await.unwrap();
    world.machine.fail_next("write_atomic", 5);
    stage_other(&world, many()).await.unwrap_err();
    assert_eq!(world.machine.loops().len(), 1, "the first node has it");
    world.publish("v", "a", many()).await.expect("still staged here");
}

/// What one node left behind does not keep the device from going when the next is through.
#[tokio::test]
async fn a_device_moves_from_node_to_node() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    attach_to(&world, OTHER_NODE, block(), false).await.unwrap();
    stage_other(&world, block()).await.unwrap();
    publish_other(&world, "b", block()).await.unwrap();
    take_down_other(&world, "b").await;
    assert_eq!(world.machine.loops(), []);
}

#[tokio::test]
async fn one_writer_and_readers_beside_it() {
    let mode = || mount_as("ext4", Mode::MultiNodeSingleWriter);
    let world = World::new().await;
    world.staged("v", mode()).await;
    assert_eq!(code(&attach_to(&world, OTHER_NODE, mode(), false).await), Code::FailedPrecondition);
    attach_to(&world, OTHER_NODE, mode(), true).await.unwrap();
    stage_other(&world, mode()).await.unwrap();
    publish_other(&world, "b", mode()).await.unwrap();
    let written = world.host.disk.write_atomic(&target("b").join("f"), b"x", 0o600).await;
    assert!(written.is_err(), "the reader cannot write");
}

#[tokio::test]
async fn a_node_in_another_place_cannot_have_the_volume() {
    let mut config = super::world::config();
    config.others[0].topology = [("zone".to_owned(), "far".to_owned())].into();
    let world = World::with(config).await;
    world.controller().create_volume(create("v", block())).await.unwrap();
    let refused = attach_to(&world, OTHER_NODE, block(), false).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("topology"), "{}", refused.message());
    assert_eq!(code(&attach_to(&world, NODE, mount(), false).await), Code::FailedPrecondition, "not a mount");
}
