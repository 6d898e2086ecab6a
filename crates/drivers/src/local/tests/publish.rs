//! NodePublishVolume and NodeUnpublishVolume for filesystems.

use std::path::Path;

use bowline_host::disk::Kind;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{World, attach, block, code, create, mount, mount_as, mount_with, publish, target, text};

type Publish = csi::NodePublishVolumeRequest;

#[tokio::test]
async fn answers_to_a_first_publish() {
    let table: [(&str, fn(&mut Publish), Code); 12] = [
        ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
        ("no target", |r| r.target_path.clear(), Code::InvalidArgument),
        ("relative target", |r| r.target_path = "some/path".into(), Code::InvalidArgument),
        ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
        ("unknown", |r| r.volume_id = "x".into(), Code::NotFound),
        (
            "unknown, no staging",
            |r| (r.volume_id, r.staging_target_path) = ("x".into(), String::new()),
            Code::NotFound,
        ),
        ("impossible", |r| r.volume_id = "../v".into(), Code::NotFound),
        ("no staging path", |r| r.staging_target_path.clear(), Code::FailedPrecondition),
        ("wrong staging path", |r| r.staging_target_path = "/var/lib".into(), Code::FailedPrecondition),
        ("as block", |r| r.volume_capability = Some(block()), Code::FailedPrecondition),
        (
            "as xfs",
            |r| r.volume_capability = Some(mount_as("xfs", Mode::SingleNodeWriter)),
            Code::FailedPrecondition,
        ),
        ("as usual", |_| {}, Code::Ok),
    ];
    let world = World::new().await;
    world.staged("v", mount()).await;
    for (name, change, expected) in table {
        let mut request = publish("v", "a", mount());
        change(&mut request);
        let answer = world.node().node_publish_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        assert_eq!(world.exists(&target("a")).await, expected == Code::Ok, "{name}");
    }
}

/// The table of csi-driver.md 2.3: same or other target, same or other arguments.
#[tokio::test]
async fn answers_to_a_second_publish() {
    use Mode::{SingleNodeMultiWriter as Many, SingleNodeSingleWriter as One, SingleNodeWriter as Writer};
    let table = [
        (Many, "a", false, Code::Ok),
        (Many, "a", true, Code::AlreadyExists),
        (Many, "b", false, Code::Ok),
        (Many, "b", true, Code::Ok),
        (Writer, "a", false, Code::Ok),
        (Writer, "a", true, Code::AlreadyExists),
        (Writer, "b", false, Code::Ok),
        (One, "a", false, Code::Ok),
        (One, "a", true, Code::AlreadyExists),
        (One, "b", false, Code::FailedPrecondition),
        (One, "b", true, Code::FailedPrecondition),
    ];
    for (mode, name, readonly, expected) in table {
        let world = World::new().await;
        let capability = mount_as("ext4", mode);
        world.staged("v", capability.clone()).await;
        world.publish("v", "a", capability.clone()).await.unwrap();
        let request = Publish { readonly, ..publish("v", name, capability) };
        let answer = world.node().node_publish_volume(request).await;
        assert_eq!(code(&answer), expected, "{mode:?} {name} {readonly}");
        let targets = if name == "b" && expected == Code::Ok { 2 } else { 1 };
        assert_eq!(world.machine.mounts().len(), 1 + targets, "{mode:?} {name} {readonly}");
        assert_eq!(world.exists(&target("b")).await, targets == 2, "no leftover");
    }
}

#[tokio::test]
async fn not_staged_is_a_wrong_state() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::FailedPrecondition);
    world.stage("v", mount()).await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::FailedPrecondition, "no longer");
    assert!(!world.exists(&target("a")).await);
}

#[tokio::test]
async fn read_only_means_read_only() {
    let reader = mount_as("ext4", Mode::SingleNodeReaderOnly);
    let flag = mount_with(&["ro"]);
    for (why, capability, attach_read_only, read_only) in [
        ("asked for", mount(), false, true),
        ("by mode", reader, false, false),
        ("by attachment", mount(), true, false),
        ("by flag", flag, false, false),
    ] {
        let world = World::new().await;
        world.controller().create_volume(create("v", capability.clone())).await.unwrap();
        if why == "by flag" {
            world.attach("v", mount()).await.unwrap();
            world.stage("v", mount()).await.expect("formats");
            world.unstage("v").await.unwrap();
            world.detach("v").await.unwrap();
        }
        let mut request = attach("v", super::world::NODE, capability.clone());
        request.readonly = attach_read_only;
        world.controller().controller_publish_volume(request).await.unwrap();
        world.stage("v", capability.clone()).await.unwrap();
        let request = Publish { readonly: read_only, ..publish("v", "a", capability) };
        for _ in 0..2 {
            world.node().node_publish_volume(request.clone()).await.expect(why);
        }
        let file = target("a").join("file");
        let written = world.host.disk.write_atomic(&file, b"x", 0o600).await;
        assert_eq!(written.unwrap_err().raw_os_error(), Some(30), "{why}");
    }
}

#[tokio::test]
async fn several_targets_share_the_data() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.publish("v", "b", mount()).await.unwrap();
    world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    assert_eq!(world.host.disk.read(&target("b").join("file")).await.unwrap(), b"data");
}

#[tokio::test]
async fn a_failed_bind_leaves_no_target() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.machine.fail_next("bind", 22);
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::Internal);
    assert!(!world.exists(&target("a")).await);
}

#[tokio::test]
async fn unpublishing() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.kernel.bind(&target("a"), &target("a"), false).await.unwrap();
    world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    for _ in 0..2 {
        world.unpublish("v", "a").await.unwrap();
        assert!(!world.exists(&target("a")).await);
        assert_eq!(world.machine.mounts().len(), 1, "staging stays");
    }
    world.publish("v", "a", mount()).await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
}

#[tokio::test]
async fn unpublishing_what_was_never_published() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.unpublish("v", "a").await.expect("nothing there");
    world.unpublish("unknown", "a").await.expect("unknown volume");
    world.host.disk.create_dir_all(&target("stray"), 0o755).await.unwrap();
    world.unpublish("unknown", "stray").await.expect("stray empty target");
    assert!(!world.exists(&target("stray")).await);
    for (volume, path) in [("", "/var/lib/pods/a"), ("v", ""), ("v", "a"), ("v", "/a/../b")] {
        let request = csi::NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: path.into() };
        let answer = world.node().node_unpublish_volume(request).await;
        assert_eq!(code(&answer), Code::InvalidArgument, "{volume} {path}");
    }
}

/// Removal is never recursive and never takes what the driver did not make.
#[tokio::test]
async fn nothing_but_empty_targets_is_removed() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let dir = target("dir");
    world.host.disk.create_dir_all(&dir, 0o755).await.unwrap();
    world.host.disk.write_atomic(&dir.join("file"), b"data", 0o600).await.unwrap();
    world.host.disk.symlink(Path::new("/etc"), &target("link")).await.unwrap();
    for path in [dir.clone(), dir.join("file"), target("link")] {
        let request = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: text(path) };
        world.node().node_unpublish_volume(request).await.expect_err("holds data");
    }
    assert_eq!(world.host.disk.read(&dir.join("file")).await.unwrap(), b"data");
    assert_eq!(world.host.disk.kind(&target("link")).await.unwrap(), Some(Kind::Symlink));
}

#[tokio::test]
async fn another_volume_at_the_target_is_noticed() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.staged("other", mount()).await;
    world.publish("other", "a", mount()).await.unwrap();
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::FailedPrecondition);
    assert_eq!(code(&world.unpublish("v", "a").await), Code::FailedPrecondition);
    assert_eq!(world.machine.mounts().len(), 3);
}
