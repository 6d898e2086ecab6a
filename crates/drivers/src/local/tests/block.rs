//! Volumes without a filesystem.

use bowline_host::disk::Kind;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{World, block, block_as, code, create, mount, publish, staging, target};

#[tokio::test]
async fn the_device_is_at_the_target_and_nothing_on_the_staging_path() {
    let world = World::new().await;
    world.staged("v", block()).await;
    assert_eq!(world.machine.loops().len(), 1);
    assert_eq!(world.host.disk.list(&staging("v")).await.unwrap(), Vec::<String>::new());
    assert_eq!(world.machine.mounts(), []);
    for _ in 0..2 {
        world.stage("v", block()).await.unwrap();
        world.publish("v", "a", block()).await.unwrap();
        assert_eq!(world.machine.mounts().len(), 1);
    }
    assert_eq!(world.host.disk.kind(&target("a")).await.unwrap(), Some(Kind::BlockDevice));

    assert_eq!(code(&world.unstage("v").await), Code::FailedPrecondition, "still published");
    for _ in 0..2 {
        world.unpublish("v", "a").await.unwrap();
        assert!(!world.exists(&target("a")).await);
    }
    for _ in 0..2 {
        world.unstage("v").await.unwrap();
    }
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn a_failed_bind_leaves_no_file() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.machine.fail_next("bind", 22);
    assert_eq!(code(&world.publish("v", "a", block()).await), Code::Internal);
    assert!(!world.exists(&target("a")).await);
}

#[tokio::test]
async fn not_staged_is_a_wrong_state() {
    let world = World::new().await;
    world.create_block("v").await.unwrap();
    world.attach("v", block()).await.unwrap();
    assert_eq!(code(&world.publish("v", "a", block()).await), Code::FailedPrecondition);
    world.stage("v", block()).await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(code(&world.publish("v", "a", block()).await), Code::FailedPrecondition, "no longer");
    assert_eq!(code(&world.stage("v", mount()).await), Code::FailedPrecondition, "as a filesystem");
}

#[tokio::test]
async fn one_target_only() {
    let world = World::new().await;
    let one = block_as(Mode::SingleNodeSingleWriter);
    world.staged("v", one.clone()).await;
    world.publish("v", "a", one.clone()).await.unwrap();
    assert_eq!(code(&world.publish("v", "b", one).await), Code::FailedPrecondition);
    assert!(!world.exists(&target("b")).await);
}

/// A read-only mount of a device file does not stop writes to the device, so only a device that was attached
/// read-only may be published so.
#[tokio::test]
async fn read_only_needs_a_read_only_device() {
    let world = World::new().await;
    world.staged("rw", block()).await;
    let request = csi::NodePublishVolumeRequest { readonly: true, ..publish("rw", "a", block()) };
    assert_eq!(code(&world.node().node_publish_volume(request).await), Code::FailedPrecondition);

    let reader = block_as(Mode::SingleNodeReaderOnly);
    world.staged("ro", reader.clone()).await;
    world.publish("ro", "b", reader).await.unwrap();
    let image = world.image("ro");
    let refused = world.host.kernel.loop_attach(&image, false).await;
    assert!(refused.is_err(), "the device is read-only");
}

/// Both kinds of access on one volume: what a block user wrote is never taken for an empty disk.
#[tokio::test]
async fn bytes_of_a_block_user_are_never_formatted() {
    let world = World::new().await;
    let mut request = create("v", block());
    request.volume_capabilities.push(mount());
    world.controller().create_volume(request).await.unwrap();
    world.attach("v", block()).await.unwrap();
    world.stage("v", block()).await.unwrap();
    assert_eq!(code(&world.stage("v", mount()).await), Code::AlreadyExists, "staged as block");
    world.unstage("v").await.unwrap();
    // The fake device still looks empty, as it would with a database's own format on it.
    assert_eq!(code(&world.stage("v", mount()).await), Code::FailedPrecondition);
    assert_eq!(world.machine.loops(), []);
}
