//! Records that were lost or spoilt, and what their images still say.

use bowline_host::kernel::Content;
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{MIB, World, block, code, create, mount, target};
use crate::capability::FsType;
use crate::local::record::{Contents, Phase, VolumeRecord};
use crate::shelf::label::LABEL;

const EROFS: i32 = 30;
const EOPNOTSUPP: i32 = 95;

/// What can become of a record file.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Missing,
    Empty,
    CutShort,
    Overwritten,
}

const LOSSES: [Loss; 4] = [Loss::Missing, Loss::Empty, Loss::CutShort, Loss::Overwritten];

async fn lose_record(world: &World, id: &str, loss: Loss) {
    let (disk, path) = (&world.host.disk, world.record_path(id));
    let bytes = disk.read(&path).await.unwrap();
    let spoilt: &[u8] = match loss {
        Loss::Missing => return disk.remove_file(&path).await.unwrap(),
        Loss::Empty => b"",
        Loss::CutShort => &bytes[..bytes.len() / 2],
        Loss::Overwritten => b"\0\xff\0\xff",
    };
    disk.write_atomic(&path, spoilt, 0o600).await.unwrap();
}

async fn record(world: &World, id: &str) -> VolumeRecord {
    serde_json::from_slice(&world.host.disk.read(&world.record_path(id)).await.unwrap()).unwrap()
}

async fn label(world: &World, id: &str) -> String {
    let bytes = world.host.disk.label(&world.image(id), LABEL).await.unwrap().expect("a label");
    String::from_utf8(bytes).unwrap()
}

/// Goal: a volume is what it was, with its data, when only its image is left.
#[tokio::test]
async fn a_lost_record_is_no_lost_volume() {
    for loss in LOSSES {
        let world = World::new().await;
        world.staged("v", mount()).await;
        world.publish("v", "a", mount()).await.unwrap();
        world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
        world.create("other").await.unwrap();
        let before = record(&world, "v").await;
        lose_record(&world, "v", loss).await;

        let world = world.restart().await;
        let after = record(&world, "v").await;
        let expected =
            VolumeRecord { published: Default::default(), staged: Default::default(), ..before.clone() };
        assert_eq!(after, expected, "{loss:?}");

        world.unpublish("v", "a").await.unwrap();
        world.unstage("v").await.unwrap();
        world.create("v").await.expect("the repeat of its creation finds it");
        world.attach("v", mount()).await.unwrap();
        world.stage("v", mount()).await.unwrap();
        world.publish("v", "a", mount()).await.unwrap();
        assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data", "{loss:?}");
    }
}

/// Goal: recovery never makes a volume look emptier than it is.
#[tokio::test]
async fn contents_after_recovery() {
    let ext4 = Contents::Formatted(FsType::Ext4);
    for (name, capability, staged, written, expected) in [
        ("never used", mount(), false, false, Contents::Blank),
        ("bytes that the label does not know of", mount(), false, true, ext4),
        ("formatted", mount(), true, true, ext4),
        ("formatted, and nothing is left of it", mount(), true, false, ext4),
        ("a bare device never used", block(), false, false, Contents::Blank),
        ("bytes on a bare device", block(), false, true, Contents::Raw),
        ("a bare device that somebody had", block(), true, false, Contents::Raw),
    ] {
        let world = World::new().await;
        world.controller().create_volume(create("v", capability.clone())).await.unwrap();
        if staged {
            world.attach("v", capability.clone()).await.unwrap();
            world.stage("v", capability.clone()).await.unwrap();
            world.unstage("v").await.unwrap();
        }
        if written {
            world.machine.write_device(&world.image("v"), 4 << 20, b"data").unwrap();
        } else {
            world.machine.set_content(&world.image("v"), Content::Empty);
        }
        lose_record(&world, "v", Loss::Missing).await;
        let world = world.restart().await;
        assert_eq!(record(&world, "v").await.contents, expected, "{name}");
    }
}

#[tokio::test]
async fn the_label_follows_the_facts() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    assert!(label(&world, "v").await.contains("\"contents\":\"blank\""));
    world.attach("v", mount()).await.unwrap();
    world.stage("v", mount()).await.unwrap();
    let label = label(&world, "v").await;
    assert!(label.contains("\"formatted\":\"ext4\""), "{label}");
    assert!(!label.contains("staging") && !label.contains("node-1\":{"), "no use is in it: {label}");
    assert!(label.len() < 900, "fits the smallest block of ext4, too: {} bytes", label.len());
}

/// Every call on a volume, with its code.
async fn every_call(world: &World, id: &str) -> Vec<(&'static str, Result<(), tonic::Status>)> {
    let get = csi::ControllerGetVolumeRequest { volume_id: id.into() };
    let validate = csi::ValidateVolumeCapabilitiesRequest {
        volume_id: id.into(),
        volume_capabilities: vec![mount()],
        ..Default::default()
    };
    vec![
        ("create", world.create(id).await),
        ("attach", world.attach(id, mount()).await),
        ("stage", world.stage(id, mount()).await),
        ("publish", world.publish(id, "a", mount()).await),
        ("get", world.controller().controller_get_volume(get).await.map(drop)),
        ("validate", world.controller().validate_volume_capabilities(validate).await.map(drop)),
        ("unpublish", world.unpublish(id, "a").await),
        ("unstage", world.unstage(id).await),
        ("detach", world.detach(id).await),
        ("delete", world.delete(id).await),
    ]
}

async fn assert_quarantined(world: &World, id: &str, why: &str) {
    let before = world.machine.files();
    for (call, answer) in every_call(world, id).await {
        if matches!(call, "unpublish" | "unstage") {
            answer.unwrap_or_else(|status| panic!("{call} must stay possible: {status}"));
            continue;
        }
        assert_eq!(code(&answer), Code::Internal, "{call}");
        let text = answer.unwrap_err().message().to_owned();
        assert!(text.contains(why) && text.contains("`bowline driver local check`"), "{call}: {text}");
    }
    assert_eq!(world.machine.files(), before, "nothing was touched");
    for (call, answer) in every_call(world, "fine").await {
        answer.unwrap_or_else(|status| panic!("{call} on another volume: {status}"));
    }
}

#[tokio::test]
async fn without_record_and_label_a_volume_stands_alone() {
    for loss in LOSSES {
        let world = World::new().await;
        world.create("v").await.unwrap();
        lose_record(&world, "v", loss).await;
        // A copy carries no label.
        let (image, copy) = (world.image("v"), world.image("v").with_file_name("copy"));
        world.host.disk.copy(&image, &copy).await.unwrap();
        world.host.disk.rename(&copy, &image).await.unwrap();
        let world = world.restart().await;
        assert_quarantined(&world, "v", "its image carries no label").await;
    }
}

#[tokio::test]
async fn a_moved_image_is_not_adopted() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    lose_record(&world, "v", Loss::Missing).await;
    let volumes = world.config.pool.join("volumes");
    world.host.disk.rename(&volumes.join("v"), &volumes.join("w")).await.unwrap();
    let world = world.restart().await;
    assert_quarantined(&world, "w", "belongs to volume `v`").await;
    world.create("v").await.expect("the name is free, and gets an image of its own");
}

#[tokio::test]
async fn a_record_from_the_future_is_left_alone() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let path = world.record_path("v");
    let text = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
    let newer = text.replace("\"version\": 2", "\"version\": 3");
    assert_ne!(text, newer);
    world.host.disk.write_atomic(&path, newer.as_bytes(), 0o600).await.unwrap();
    let world = world.restart().await;
    assert_quarantined(&world, "v", "layout 3").await;
    assert_eq!(world.host.disk.read(&path).await.unwrap(), newer.as_bytes());
}

/// A filesystem without attributes is no reason not to work, only not to recover.
#[tokio::test]
async fn a_pool_without_labels() {
    let world = World::new().await;
    for _ in 0..3 {
        world.machine.fail_next("set_label", EOPNOTSUPP);
    }
    let world = world.restart().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.stage("v", mount()).await.unwrap();
    world.unstage("v").await.unwrap();
    world.create("fine").await.unwrap();
    assert_eq!(world.host.disk.label(&world.image("v"), LABEL).await.unwrap(), None);
    lose_record(&world, "v", Loss::Missing).await;
    let world = world.restart().await;
    assert_quarantined(&world, "v", "carries no label").await;
}

#[tokio::test]
async fn a_volume_that_cannot_be_written_back_is_there_all_the_same() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    lose_record(&world, "v", Loss::Missing).await;
    // The first label is that of the lock.
    world.machine.fail_next("set_label", EROFS);
    world.machine.fail_next("set_label", EROFS);
    let world = world.restart().await;
    assert!(!world.exists(&world.record_path("v")).await);
    let get = || csi::ControllerGetVolumeRequest { volume_id: "v".into() };
    let found = world.controller().controller_get_volume(get()).await.unwrap().into_inner();
    assert_eq!(found.volume.unwrap().capacity_bytes, 64 * MIB);
    world.attach("v", mount()).await.expect("works when it can be written again");
}

#[tokio::test]
async fn a_record_without_an_image() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    let world = world.restart().await;
    world.create("v").await.expect("the volume exists");
    let get = csi::ControllerGetVolumeRequest { volume_id: "v".into() };
    let found = world.controller().controller_get_volume(get).await.unwrap().into_inner();
    let condition = found.status.unwrap().volume_condition.unwrap();
    assert!(condition.abnormal, "{condition:?}");
    let lost = world.stage("v", mount()).await.unwrap_err();
    assert!(lost.code() == Code::DataLoss && lost.message().contains("disk.img` is gone"), "{lost}");
    assert!(!world.exists(&world.image("v")).await, "nothing was made in its place");
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn an_image_that_was_cut_short() {
    for capability in [mount(), block()] {
        let world = World::new().await;
        world.controller().create_volume(create("v", capability.clone())).await.unwrap();
        world.attach("v", capability.clone()).await.unwrap();
        world.host.disk.remove_file(&world.image("v")).await.unwrap();
        world.host.disk.create_sparse(&world.image("v"), 63 << 20).await.unwrap();
        let lost = world.stage("v", capability.clone()).await.unwrap_err();
        assert!(lost.code() == Code::DataLoss && lost.message().contains("66060288"), "{lost}");
        assert_eq!(world.host.disk.length(&world.image("v")).await.unwrap(), 63 << 20, "not grown");
        assert_eq!(world.machine.loops(), []);

        // A crash between growing the image and recording it leaves more bytes, not fewer.
        world.host.disk.create_sparse(&world.image("v"), 65 << 20).await.unwrap();
        world.stage("v", capability).await.expect("longer is no damage");
    }
}

/// Volumes are recovered from all they have been through, not only from the last step.
#[tokio::test]
async fn a_volume_that_was_being_deleted_stays_so() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.machine.fail_next("remove_file", 5);
    assert_eq!(code(&world.delete("v").await), Code::Internal);
    assert_eq!(record(&world, "v").await.phase, Phase::Deleting);
    world.machine.fail_next("remove_file", 5);
    let world = world.restart().await;
    assert_eq!(
        record(&world, "v").await.phase,
        Phase::Deleting,
        "the start could not finish it, and goes on"
    );
    let world = world.restart().await;
    world.assert_clean("finished by the next start").await;
}

/// Goal: a pod whose volume has lost its record can end.
#[tokio::test]
async fn a_quarantined_volume_can_be_taken_down() {
    for capability in [mount(), block()] {
        let world = World::new().await;
        world.staged("v", capability.clone()).await;
        world.publish("v", "a", capability.clone()).await.unwrap();
        let world = world.quarantine("v").await;
        let record = world.host.disk.read(&world.record_path("v")).await.unwrap();
        assert_eq!(code(&world.publish("v", "b", capability.clone()).await), Code::Internal, "quarantined");
        world.unstage("v").await.unwrap();
        assert_eq!((world.machine.loops().len(), world.machine.mounts().len()), (1, 1), "published");
        world.unpublish("v", "a").await.unwrap();
        world.unstage("v").await.expect("repeated");
        assert_eq!((world.machine.loops(), world.machine.mounts()), (Vec::new(), Vec::new()));
        assert_eq!(world.host.disk.read(&world.record_path("v")).await.unwrap(), record, "untouched");
    }
}

/// Goal: a disk that fails does not keep a block volume staged.
#[tokio::test]
async fn a_record_that_cannot_be_written_does_not_stop_unstaging() {
    const EIO: i32 = 5;
    for errno in [EIO, EROFS] {
        let world = World::new().await;
        world.staged("v", block()).await;
        world.machine.fail_next("write_atomic", errno);
        world.unstage("v").await.unwrap();
        assert_eq!(world.machine.planned(), [] as [String; 0], "it was tried");
        assert_eq!(world.machine.loops(), []);
        world.stage("v", block()).await.unwrap();
        world.unstage("v").await.unwrap();
    }
}
