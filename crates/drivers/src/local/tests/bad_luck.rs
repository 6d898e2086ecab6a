//! A pool that is full or read-only, and devices that go away behind the driver's back.

use std::path::PathBuf;

use bowline_host::disk::Space;
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{Answer, World, block, code, create, mount, stage, staging, target};

/// Every call that changes something, there and back.
#[derive(Debug, Clone, Copy)]
enum Call {
    Create,
    Attach,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Detach,
    Delete,
}

const JOURNEY: [Call; 8] = [
    Call::Create,
    Call::Attach,
    Call::Stage,
    Call::Publish,
    Call::Unpublish,
    Call::Unstage,
    Call::Detach,
    Call::Delete,
];

async fn perform(world: &World, call: Call, capability: csi::VolumeCapability) -> Answer {
    match call {
        Call::Create => world.controller().create_volume(create("v", capability)).await.map(drop),
        Call::Attach => world.attach("v", capability).await,
        // Without making the directory first, which needs room, too.
        Call::Stage => world.node().node_stage_volume(stage("v", capability)).await.map(drop),
        Call::Publish => world.publish("v", "a", capability).await,
        Call::Unpublish => world.unpublish("v", "a").await,
        Call::Unstage => world.unstage("v").await,
        Call::Detach => world.detach("v").await,
        Call::Delete => world.delete("v").await,
    }
}

async fn space(world: &World) -> Space {
    world.host.disk.space(&world.config.pool).await.unwrap()
}

/// Goal: what needs room says so, what needs none works, and nothing is in the way when there is room again.
#[tokio::test]
async fn a_full_pool() {
    for capability in [mount(), block()] {
        let world = World::new().await;
        world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
        let room = space(&world).await;
        for call in JOURNEY {
            world.machine.set_space(Space { available: 0, inodes_available: 0, ..room });
            let answer = perform(&world, call, capability.clone()).await;
            let expected = match call {
                Call::Create | Call::Attach | Call::Stage | Call::Publish | Call::Detach => {
                    Code::ResourceExhausted
                }
                Call::Unpublish | Call::Unstage | Call::Delete => Code::Ok,
            };
            assert_eq!(code(&answer), expected, "{call:?}: {answer:?}");
            if let Err(status) = answer {
                assert!(status.message().contains("no room is left"), "{call:?}: {status}");
            }
            world.machine.set_space(room);
            perform(&world, call, capability.clone()).await.unwrap_or_else(|s| panic!("{call:?} again: {s}"));
        }
        world.assert_clean("after a journey with a full disk").await;
    }
}

/// Goal: whichever kind of write finds no room first, the caller is told that, and the journey goes on.
#[tokio::test]
async fn want_of_room_for_each_kind_of_write() {
    const ENOSPC: i32 = 28;
    for operation in ["create_dir_all", "create_file", "create_sparse", "set_label", "write_atomic"] {
        let mut struck = 0;
        for capability in [mount(), block()] {
            for unlucky in 0..JOURNEY.len() {
                let world = World::new().await;
                world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
                for (position, call) in JOURNEY.into_iter().enumerate() {
                    if position == unlucky {
                        world.machine.fail_next(operation, ENOSPC);
                    }
                    let Err(status) = perform(&world, call, capability.clone()).await else { continue };
                    assert_eq!(status.code(), Code::ResourceExhausted, "{operation} in {call:?}: {status}");
                    struck += 1;
                    let again = perform(&world, call, capability.clone()).await;
                    again.unwrap_or_else(|status| panic!("{operation} in {call:?}, again: {status}"));
                }
                world.assert_clean(operation).await;
            }
        }
        assert!(struck > 0, "{operation} was never needed");
    }
}

/// The kernel reports a full disk below an image as an input/output error of the device.
#[tokio::test]
async fn a_device_without_room_below() {
    const EIO: i32 = 5;
    for operation in ["make_filesystem", "mount"] {
        let world = World::new().await;
        world.create("v").await.unwrap();
        world.attach("v", mount()).await.unwrap();
        let room = space(&world).await;
        world.machine.set_space(Space { available: 64 << 10, ..room });
        world.machine.fail_next(operation, EIO);
        let status = world.stage("v", mount()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{operation}: {status}");
        assert!(status.message().contains("no room") && status.message().contains(operation), "{status}");
        assert_eq!(world.machine.loops(), [], "nothing stays attached");

        world.machine.set_space(room);
        world.machine.fail_next("mount", EIO);
        assert_eq!(code(&world.stage("v", mount()).await), Code::Internal, "not for want of room");
        world.stage("v", mount()).await.expect("works again when there is room");
    }
}

/// Goal: whatever the pool cannot write down is refused with the reason; what is in use can still be taken down.
#[tokio::test]
async fn a_read_only_pool() {
    for capability in [mount(), block()] {
        let world = World::new().await;
        world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
        let pool = world.config.pool.clone();
        let read_only = async || world.host.kernel.bind(&pool, &pool, true).await.unwrap();
        let writable = async || world.host.kernel.unmount(&pool).await.unwrap();
        for call in JOURNEY {
            read_only().await;
            let probe = world.identity().probe(csi::ProbeRequest {}).await;
            assert_eq!(code(&probe), Code::FailedPrecondition);
            let answer = perform(&world, call, capability.clone()).await;
            let expected = match call {
                Call::Create | Call::Attach | Call::Stage | Call::Detach | Call::Delete => {
                    Code::FailedPrecondition
                }
                Call::Publish | Call::Unpublish | Call::Unstage => Code::Ok,
            };
            assert_eq!(code(&answer), expected, "{call:?}: {answer:?}");
            if let Err(status) = answer {
                assert!(status.message().contains("read-only"), "{call:?}: {status}");
            }
            writable().await;
            world.identity().probe(csi::ProbeRequest {}).await.expect("healthy again");
            perform(&world, call, capability.clone()).await.unwrap_or_else(|s| panic!("{call:?} again: {s}"));
        }
        world.assert_clean("after a journey with a read-only pool").await;
    }
}

/// A driver that is restarted in the middle of it can still clean up.
#[tokio::test]
async fn a_start_on_a_read_only_pool() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    let pool = world.config.pool.clone();
    world.host.kernel.bind(&pool, &pool, true).await.unwrap();
    let world = world.restart().await;
    assert_eq!(code(&world.identity().probe(csi::ProbeRequest {}).await), Code::FailedPrecondition);
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.loops(), []);
    world.host.kernel.unmount(&pool).await.unwrap();
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

async fn detach_by_hand(world: &World) -> PathBuf {
    let device = world.machine.loops()[0].0.clone();
    world.host.kernel.loop_detach(&device).await.unwrap();
    device
}

#[tokio::test]
async fn a_device_that_vanishes_before_it_is_published() {
    let world = World::new().await;
    world.staged("v", block()).await;
    detach_by_hand(&world).await;
    assert_eq!(code(&world.publish("v", "a", block()).await), Code::FailedPrecondition, "not staged");
    world.stage("v", block()).await.expect("staged again");
    world.publish("v", "a", block()).await.unwrap();
    world.unpublish("v", "a").await.unwrap();
    detach_by_hand(&world).await;
    world.unstage("v").await.expect("nothing is left to undo");
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

/// Goal: users of a device that was cleared never see the image of another volume, and can be taken down.
#[tokio::test]
async fn a_device_that_vanishes_while_it_is_published() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.publish("v", "a", block()).await.unwrap();
    let device = detach_by_hand(&world).await;

    world.staged("w", block()).await;
    assert_ne!(world.machine.loops()[0].0, device, "a target still shows it");
    let refused = [world.stage("v", block()).await, world.publish("v", "b", block()).await];
    assert_eq!(refused.map(|answer| code(&answer)), [Code::FailedPrecondition; 2]);
    assert_eq!(code(&world.unstage("v").await), Code::FailedPrecondition, "published");
    world.unpublish("v", "a").await.unwrap();
    assert!(!world.exists(&target("a")).await);
    for id in ["v", "w"] {
        world.unstage(id).await.unwrap();
        world.detach(id).await.unwrap();
        world.delete(id).await.unwrap();
    }
    world.assert_clean("deleted").await;
}

/// An image removed by hand lives on below its device until the last user is gone; then so is the data.
#[tokio::test]
async fn an_image_that_is_removed_while_mounted() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    let world = world.restart().await;
    assert_eq!(world.machine.loops().len(), 1, "what is mounted is not touched");
    world.stage("v", mount()).await.expect("still staged");
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.loops(), []);
    assert_eq!(code(&world.stage("v", mount()).await), Code::DataLoss);
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn a_start_releases_devices_of_deleted_images() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.staged("kept", mount()).await;
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    let elsewhere = PathBuf::from("/var/lib/disk.img");
    world.host.disk.create_sparse(&elsewhere, 1 << 20).await.unwrap();
    world.host.kernel.loop_attach(&elsewhere, false).await.unwrap();
    world.host.disk.remove_file(&elsewhere).await.unwrap();
    let world = world.restart().await;
    let images: Vec<_> = world.machine.loops().into_iter().map(|(_, image)| image).collect();
    assert_eq!(images, [world.image("kept"), elsewhere]);
}

#[tokio::test]
async fn a_start_removes_what_was_being_written() {
    let world = World::new().await;
    world.create("ready").await.unwrap();
    world.machine.fail_next("create_sparse", 5);
    world.create("v").await.unwrap_err();
    let half = world.image("v").with_file_name(".bowline-new-disk.img");
    world.host.disk.create_sparse(&half, 1 << 20).await.unwrap();
    let world = world.restart().await;
    assert!(!world.exists(&half).await);
    world.create("v").await.expect("its creation goes on");
}
