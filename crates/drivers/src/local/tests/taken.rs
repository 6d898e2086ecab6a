//! Loop devices that get another image while users of a volume have them.

use std::path::PathBuf;

use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{World, block, code, mount, staging, target, text};
use crate::doors::Fault;

/// A published block volume whose device was cleared and given to a file of something else while no driver ran.
async fn stolen() -> (World, PathBuf) {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.publish("v", "a", block()).await.unwrap();
    world.stop().await;
    let device = world.machine.loops()[0].0.clone();
    world.machine.clear_loop(&device);
    let other = PathBuf::from("/var/lib/other.img");
    world.host.disk.create_sparse(&other, 1 << 20).await.unwrap();
    world.machine.replace_loop(&device, &other).unwrap();
    (world.restart().await, device)
}

fn stats(path: PathBuf) -> csi::NodeGetVolumeStatsRequest {
    csi::NodeGetVolumeStatsRequest { volume_id: "v".into(), volume_path: text(path), ..Default::default() }
}

/// Goal: the call says what is wrong, and nothing of the other owner is touched.
#[tokio::test]
async fn a_taken_device_is_refused_and_reported() {
    let (world, device) = stolen().await;
    for answer in [world.stage("v", block()).await, world.publish("v", "b", block()).await] {
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        for part in
            ["`v`", "/var/lib/other.img", "disk.img", &device.to_string_lossy(), "NodeUnpublishVolume"]
        {
            assert!(refused.message().contains(part), "{part} in {refused}");
        }
    }
    let told = world.node().node_get_volume_stats(stats(target("a"))).await.unwrap().into_inner();
    assert_eq!(told.usage, [], "figures of another's device");
    let condition = told.volume_condition.unwrap();
    assert!(condition.abnormal && condition.message.contains("/var/lib/other.img"), "{condition:?}");
    let listed = world.controller().list_volumes(csi::ListVolumesRequest::default()).await.unwrap();
    let status = listed.into_inner().entries[0].status.clone().unwrap();
    assert!(status.volume_condition.unwrap().abnormal);
    assert_eq!(world.machine.loops(), [(device, PathBuf::from("/var/lib/other.img"))]);
}

/// Goal: teardown is never impossible, the other keeps its device, and the volume can be used again.
#[tokio::test]
async fn a_volume_with_a_taken_device_goes_and_comes_back() {
    let (world, device) = stolen().await;
    assert_eq!(code(&world.unstage("v").await), Code::FailedPrecondition, "published");
    world.detach("v").await.unwrap();
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition, "a target shows its device");
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.loops().len(), 1, "the other's stays");
    world.attach("v", block()).await.unwrap();
    world.stage("v", block()).await.unwrap();
    world.publish("v", "a", block()).await.unwrap();
    assert_ne!(world.machine.loops()[1].0, device);
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    assert_eq!(world.machine.loops(), [(device, PathBuf::from("/var/lib/other.img"))]);
}

/// Goal: a staging that was unmounted by hand is mounted again by the publish that needs it.
#[tokio::test]
async fn publishing_mounts_again_what_was_unmounted_by_hand() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    world.host.kernel.unmount(&staging("v")).await.unwrap();
    world.publish("v", "b", mount()).await.unwrap();
    assert_eq!(
        world.host.disk.read(&target("b").join("file")).await.unwrap(),
        b"data",
        "bound from the target"
    );

    world.unpublish("v", "a").await.unwrap();
    world.unpublish("v", "b").await.unwrap();
    world.host.kernel.unmount(&staging("v")).await.unwrap();
    world.publish("v", "a", mount()).await.unwrap();
    assert_eq!(
        world.host.disk.read(&target("a").join("file")).await.unwrap(),
        b"data",
        "mounted from the device"
    );
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::FailedPrecondition, "unstaged as asked");
}

/// Goal: what cannot be proven to be staged is refused with what to do about it.
#[tokio::test]
async fn a_staging_whose_device_is_gone_has_to_be_repeated() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.host.kernel.unmount(&staging("v")).await.unwrap();
    world.machine.clear_loop(&world.machine.loops()[0].0.clone());
    let refused = world.publish("v", "a", mount()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("call NodeStageVolume again"), "{refused}");
    world.stage("v", mount()).await.unwrap();
    world.publish("v", "a", mount()).await.unwrap();
}

/// Goal: neither device files nor set-uid programs of a volume work, at no mount of it.
#[tokio::test]
async fn every_mount_is_confined() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    let mounts = world.machine.mounts();
    assert_eq!(mounts.len(), 2);
    for mount in mounts {
        for word in ["nodev", "nosuid", "errors=remount-ro"] {
            assert!(mount.options.iter().any(|option| option == word), "{word} in {mount:?}");
        }
    }
}

/// After a reboot a record still names the device that its volume had; another volume may have it by now.
#[tokio::test]
async fn a_device_from_before_a_reboot_is_not_claimed() {
    let world = World::new().await;
    world.staged("v", block()).await;
    world.stop().await;
    world.machine.reboot();
    let world = world.restart().await;
    world.staged("w", block()).await;
    world.publish("w", "w", block()).await.unwrap();
    world.stop().await;
    let world = world.restart().await;
    world.attach("v", block()).await.unwrap();
    world.stage("v", block()).await.unwrap();
    world.publish("v", "a", block()).await.unwrap();
}

/// Goal: a staging is never bound from a path that shows something else by now.
#[tokio::test]
async fn a_target_that_another_mount_hides_is_not_bound() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.kernel.unmount(&staging("v")).await.unwrap();
    world.host.kernel.mount_memory(&target("a"), None).await.unwrap();
    let before = world.machine.mounts();
    for answer in [world.stage("v", mount()).await, world.publish("v", "b", mount()).await] {
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("another mount hides it"), "{refused}");
    }
    assert_eq!(world.machine.mounts(), before);
    world.host.kernel.unmount(&target("a")).await.unwrap();
    world.publish("v", "b", mount()).await.unwrap();
}

/// Goal: what is bound is looked at again, since its path may lead elsewhere from one call to the next.
#[tokio::test]
async fn a_path_that_changes_while_it_is_bound_is_refused() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.kernel.unmount(&staging("v")).await.unwrap();
    // The bind is the first effect: the record says already that the volume is staged.
    let world = world.restart_with(Fault::Stall(1)).await;
    let (again, ()) = tokio::join!(world.stage("v", mount()), async {
        while !world.faults.struck() {
            tokio::task::yield_now().await;
        }
        world.host.kernel.mount_memory(&target("a"), None).await.unwrap();
        world.faults.resume.notify_one();
    });
    let refused = again.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("no longer a mount of this volume"), "{refused}");
    assert_eq!(world.host.kernel.mount_at(&staging("v")).await.unwrap(), None, "taken off again");
}
