//! NODE-2 through the whole driver: what may be formatted, and what never.

use bowline_host::kernel::Content;
use tonic::Code;

use super::world::{World, code, mount, mount_with};
use crate::capability::FsType;
use crate::local::record::{Contents, VolumeRecord};

fn filesystem(name: &str) -> Content {
    Content::Filesystem(name.into())
}

/// Puts a volume into a state and stages it: the code, and what is on the device afterwards.
async fn stage_over(have: Contents, probe: Content, read_only: bool) -> (Code, Content) {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    let path = world.record_path("v");
    let record: VolumeRecord = serde_json::from_slice(&world.host.disk.read(&path).await.unwrap()).unwrap();
    let record = serde_json::to_vec(&VolumeRecord { contents: have, ..record }).unwrap();
    world.host.disk.write_atomic(&path, &record, 0o600).await.unwrap();
    world.machine.set_content(&world.image("v"), probe);

    let world = world.restart().await;
    let capability = if read_only { mount_with(&["ro"]) } else { mount() };
    let answer = world.stage("v", capability).await;
    let device = world.host.kernel.loop_attach(&world.image("v"), false).await.unwrap();
    (code(&answer), world.host.kernel.content(&device).await.unwrap())
}

#[tokio::test]
async fn what_staging_does_to_a_device() {
    use Contents::{Blank, Formatted, Formatting, Raw};
    let ext4 = || filesystem("ext4");
    let xfs = || filesystem("xfs");
    let partitions = || Content::Other("dos partition table".into());
    let (refused, lost) = (Code::FailedPrecondition, Code::DataLoss);
    let table = [
        ("new", Blank, Content::Empty, false, Code::Ok, ext4()),
        ("new, read-only", Blank, Content::Empty, true, refused, Content::Empty),
        ("brought along", Blank, ext4(), false, Code::Ok, ext4()),
        ("another brought along", Blank, xfs(), false, refused, xfs()),
        ("partitions", Blank, partitions(), false, refused, partitions()),
        ("mkfs never began", Formatting(FsType::Ext4), Content::Empty, false, Code::Ok, ext4()),
        ("mkfs half done", Formatting(FsType::Ext4), ext4(), false, Code::Ok, ext4()),
        ("mkfs of another half done", Formatting(FsType::Xfs), xfs(), false, Code::Ok, ext4()),
        ("mkfs left rubble", Formatting(FsType::Ext4), partitions(), false, Code::Ok, ext4()),
        ("half done, read-only", Formatting(FsType::Ext4), ext4(), true, refused, ext4()),
        ("in use", Formatted(FsType::Ext4), ext4(), false, Code::Ok, ext4()),
        ("in use, read-only", Formatted(FsType::Ext4), ext4(), true, Code::Ok, ext4()),
        ("vanished", Formatted(FsType::Ext4), Content::Empty, false, lost, Content::Empty),
        ("vanished, read-only", Formatted(FsType::Ext4), Content::Empty, true, lost, Content::Empty),
        ("overwritten", Formatted(FsType::Ext4), partitions(), false, refused, partitions()),
        ("replaced", Formatted(FsType::Ext4), xfs(), false, refused, xfs()),
        ("block user's bytes", Raw, Content::Empty, false, refused, Content::Empty),
        ("block user's filesystem", Raw, ext4(), false, Code::Ok, ext4()),
        ("block user's other one", Raw, xfs(), false, refused, xfs()),
        ("block user's partitions", Raw, partitions(), false, refused, partitions()),
    ];
    for (name, have, probe, read_only, expected, left) in table {
        assert_eq!(stage_over(have, probe, read_only).await, (expected, left), "{name}");
    }
}

#[tokio::test]
async fn an_unreadable_device_is_not_an_empty_one() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.machine.fail_next("content", 5);
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal);
    let device = world.host.kernel.loop_attach(&world.image("v"), false).await.unwrap();
    assert_eq!(world.host.kernel.content(&device).await.unwrap(), Content::Empty);
}

#[tokio::test]
async fn a_missing_image_is_not_made_anew() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.unstage("v").await.unwrap();
    world.host.disk.remove_file(&world.image("v")).await.unwrap();
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal);
    assert!(!world.exists(&world.image("v")).await);
}

/// Only a marker that is on disk before mkfs can tell, after a crash, that nobody had the volume yet.
#[tokio::test]
async fn the_marker_is_durable_before_mkfs_and_gone_after() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    let contents = async || {
        let bytes = world.host.disk.read(&world.record_path("v")).await.unwrap();
        serde_json::from_slice::<VolumeRecord>(&bytes).unwrap().contents
    };
    world.machine.fail_next("make_filesystem", 5);
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal);
    assert_eq!(contents().await, Contents::Formatting(FsType::Ext4));
    world.machine.fail_next("mount", 5);
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal);
    assert_eq!(contents().await, Contents::Formatted(FsType::Ext4), "before anybody can write");
}
