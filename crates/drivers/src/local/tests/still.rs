//! Volumes in use are of one moment while they are copied, and go on afterwards whatever happens.

use std::path::PathBuf;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{OTHER_NODE, World, attach, block, code, mount, mount_as, stage, staging, target, text};
use crate::doors::Fault;

/// Effects of cutting a volume that is mounted twice: directory, record, freeze, copy, two thaws, record.
const FREEZE: u64 = 3;
const COPY: u64 = 4;
const THAW: u64 = 5;

fn none() -> Vec<PathBuf> {
    Vec::new()
}

/// Runs `work` while the effect of this number waits; `look` sees the machine then.
async fn meanwhile<T>(
    world: &World,
    work: impl Future<Output = T>,
    ready: impl Fn() -> bool,
    look: impl FnOnce(),
) -> T {
    let look = async {
        while !ready() {
            tokio::task::yield_now().await;
        }
        look();
        world.faults.resume.notify_one();
    };
    tokio::join!(work, look).0
}

#[tokio::test(start_paused = true)]
async fn a_mounted_filesystem_is_frozen_for_the_copy() {
    let world = World::new().await;
    world.in_use("v", "before").await;
    let world = world.restart_with(Fault::Stall(COPY)).await;
    let frozen = || !world.machine.frozen().is_empty();
    let cut = meanwhile(&world, world.snapshot("s", "v"), frozen, || {
        assert_eq!(world.machine.frozen(), [staging("v"), target("v")], "one superblock, both places");
    });
    cut.await.unwrap();
    assert_eq!(world.machine.frozen(), none());
    world.write("v", "after").await;
}

/// Two nodes and their targets show one superblock, which cannot be frozen twice.
#[tokio::test]
async fn several_nodes_show_one_filesystem() {
    let world = World::new().await;
    let many = || mount_as("ext4", Mode::MultiNodeMultiWriter);
    world.staged("v", many()).await;
    world.publish("v", "a", many()).await.unwrap();
    let request = attach("v", OTHER_NODE, many());
    world.controller().controller_publish_volume(request).await.unwrap();
    world.host.disk.create_dir_all(&staging("v2"), 0o755).await.unwrap();
    let staging_target_path = text(staging("v2"));
    let request = csi::NodeStageVolumeRequest { staging_target_path, ..stage("v", many()) };
    world.other_node().node_stage_volume(request).await.unwrap();
    assert_eq!(world.machine.mounts().len(), 3);
    world.snapshot("s", "v").await.unwrap();
    assert_eq!(world.machine.frozen(), none());
}

#[tokio::test(start_paused = true)]
async fn thawed_whatever_fails() {
    for operation in ["freeze", "copy", "write_atomic"] {
        let world = World::new().await;
        world.in_use("v", "before").await;
        world.machine.fail_next(operation, 5);
        assert_eq!(code(&world.snapshot("s", "v").await), Code::Internal, "{operation}");
        assert_eq!(world.machine.frozen(), none(), "{operation}");
        world.snapshot("s", "v").await.unwrap();
    }
    // Thawing itself is tried again.
    let world = World::new().await;
    world.in_use("v", "before").await;
    world.machine.fail_next("thaw", 5);
    world.machine.fail_next("thaw", 5);
    world.snapshot("s", "v").await.unwrap();
    assert_eq!(world.machine.frozen(), none());
}

#[tokio::test(start_paused = true)]
async fn a_start_thaws_what_a_crash_left_frozen() {
    for fault in
        [Fault::DieAfter(FREEZE), Fault::DieBefore(COPY), Fault::DieAfter(COPY), Fault::DieBefore(THAW)]
    {
        let world = World::new().await;
        world.in_use("v", "before").await;
        world.in_use("w", "untouched").await;
        let world = world.restart_with(fault).await;
        tokio::select! {
            biased;
            () = world.faults.died.notified() => {}
            answer = world.snapshot("s", "v") => panic!("{fault:?}: {answer:?}"),
        }
        assert_eq!(world.machine.frozen(), [staging("v"), target("v")], "{fault:?}");
        let world = world.restart().await;
        assert_eq!(world.machine.frozen(), none(), "{fault:?}");
        world.write("v", "after").await;
        world.snapshot("s", "v").await.unwrap();
    }
}

/// A filesystem that does not come to rest is given up, and thawed if it is frozen after all.
#[tokio::test(start_paused = true)]
async fn a_freeze_that_takes_too_long() {
    let world = World::new().await;
    world.in_use("v", "before").await;
    let world = world.restart_with(Fault::Stall(FREEZE)).await;
    let refused = world.snapshot("s", "v").await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert!(refused.message().contains("did not come to rest"), "{}", refused.message());
    world.faults.resume.notify_one();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.machine.frozen(), none());
    world.write("v", "not hanging").await;
    world.snapshot("s", "v").await.unwrap();
}

/// Who froze it relies on it; a copy would be of whatever it does then.
#[tokio::test]
async fn frozen_by_something_else() {
    let world = World::new().await;
    world.in_use("v", "before").await;
    world.host.kernel.freeze(&staging("v")).await.unwrap();
    let refused = world.snapshot("s", "v").await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    assert!(refused.message().contains(&text(staging("v"))), "{}", refused.message());
    assert_eq!(world.machine.frozen(), [staging("v"), target("v")], "and stays so");
    world.host.kernel.thaw(&staging("v")).await.unwrap();
    world.snapshot("s", "v").await.unwrap();
}

fn device(world: &World, image: PathBuf) -> PathBuf {
    let found = world.machine.loops().into_iter().find(|(_, attached)| *attached == image);
    found.expect("attached").0
}

/// A device in use cannot be stopped, so a copy of it counts only if nobody wrote meanwhile.
#[tokio::test(start_paused = true)]
async fn a_device_in_use_is_flushed_and_watched() {
    for (busy, reflinks, expected) in
        [(false, false, Code::Ok), (true, false, Code::FailedPrecondition), (true, true, Code::Ok)]
    {
        let world = World::new().await;
        world.machine.set_reflinks(reflinks);
        world.staged("v", block()).await;
        let device = device(&world, world.image("v"));
        world.machine.write_device(&device, 0, b"before").unwrap();
        // Directory, record, flush, sharing of blocks, copy.
        let world = world.restart_with(Fault::Stall(if reflinks { 4 } else { 5 })).await;
        let ready = {
            let polls = std::cell::Cell::new(0);
            move || {
                polls.set(polls.get() + 1);
                polls.get() > 1_000
            }
        };
        let cut = meanwhile(&world, world.snapshot("s", "v"), ready, || {
            if busy {
                world.machine.write_device(&device, 4096, b"meanwhile").unwrap();
            }
        });
        let answer = cut.await;
        assert_eq!(code(&answer), expected, "busy {busy}, reflinks {reflinks}");
        if let Err(refused) = answer {
            assert!(refused.message().contains("`v`"), "{}", refused.message());
            assert!(!world.exists(&world.snapshot_image("s")).await, "nothing half-made stays");
            world.snapshot("s", "v").await.expect("quiet now");
        }
    }
}

#[tokio::test]
async fn a_device_that_cannot_be_flushed_is_not_copied() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.machine.fail_next("flush", 5);
    assert_eq!(code(&world.snapshot("s", "v").await), Code::Internal);
    world.snapshot("s", "v").await.unwrap();
}

/// A volume that nobody uses needs neither.
#[tokio::test]
async fn a_volume_at_rest_is_just_copied() {
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.take_down("v").await;
    world.machine.fail_next("freeze", 5);
    world.machine.fail_next("flush", 5);
    world.snapshot("s", "v").await.unwrap();
    assert_eq!(code(&world.stage("v", mount()).await), Code::FailedPrecondition, "not published");
}
