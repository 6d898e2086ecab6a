//! NodePublishVolume, NodeUnpublishVolume and NodeGetVolumeStats.

use std::path::{Path, PathBuf};

use bowline_host::disk::Kind;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_usage::Unit;
use tonic::Code;

use super::world::{World, block, capability, code, data, publish, target, text, with_group};

type Publish = csi::NodePublishVolumeRequest;

#[tokio::test]
async fn answers_to_a_first_publish() {
    let table: [(&str, fn(&mut Publish), Code); 10] = [
        ("as usual", |_| {}, Code::Ok),
        ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
        ("no target", |r| r.target_path.clear(), Code::InvalidArgument),
        ("a relative target", |r| r.target_path = "pods/a".into(), Code::InvalidArgument),
        ("a climbing target", |r| r.target_path = "/var/lib/pods/../x".into(), Code::InvalidArgument),
        ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
        ("block", |r| r.volume_capability = Some(block()), Code::InvalidArgument),
        ("unknown volume", |r| r.volume_id = "x".into(), Code::NotFound),
        ("a staging path is not needed", |r| r.staging_target_path = "/nowhere".into(), Code::Ok),
        ("a parent that is missing", |r| r.target_path = "/var/lib/pods/b/c/mount".into(), Code::Ok),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        world.create("v").await.unwrap();
        let mut request = publish("v", "a");
        change(&mut request);
        let answer = world.node().node_publish_volume(request.clone()).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        let mounted: Vec<_> = world.machine.mounts().into_iter().map(|mount| mount.target).collect();
        let expected = if expected == Code::Ok { vec![PathBuf::from(request.target_path)] } else { vec![] };
        assert_eq!(mounted, expected, "{name}");
    }
}

#[tokio::test]
async fn many_targets_share_the_files() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    world.publish("v", "b").await.unwrap();
    let reader = Publish { readonly: true, ..publish("v", "c") };
    world.node().node_publish_volume(reader.clone()).await.unwrap();
    world.write(&target("a").join("file")).await.unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(world.host.disk.read(&target(name).join("file")).await.unwrap(), b"data", "{name}");
    }
    world.write(&target("c").join("file")).await.expect_err("read-only");
    let mounts = world.machine.mounts();
    for (name, request) in [("a", publish("v", "a")), ("c", reader)] {
        world.node().node_publish_volume(request).await.unwrap_or_else(|s| panic!("{name} again: {s}"));
    }
    assert_eq!(world.machine.mounts(), mounts, "a repeat mounts nothing");
    let writer = world.node().node_publish_volume(publish("v", "c")).await;
    assert_eq!(code(&writer), Code::AlreadyExists, "it is there as read-only");

    world.unpublish("v", "a").await.unwrap();
    assert!(!world.exists(&target("a")).await);
    assert_eq!(world.host.disk.read(&target("b").join("file")).await.unwrap(), b"data");
}

#[tokio::test]
async fn the_mode_alone_makes_a_target_read_only() {
    for mode in [Mode::SingleNodeReaderOnly, Mode::MultiNodeReaderOnly] {
        let world = World::new().await;
        world.create("v").await.unwrap();
        let request = Publish { volume_capability: Some(capability(mode)), ..publish("v", "a") };
        world.node().node_publish_volume(request).await.unwrap();
        world.write(&target("a").join("file")).await.expect_err("read-only");
    }
}

#[tokio::test]
async fn a_single_writer_has_one_target() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let alone = |name: &str| Publish {
        volume_capability: Some(capability(Mode::SingleNodeSingleWriter)),
        ..publish("v", name)
    };
    let send = async |request: Publish| world.node().node_publish_volume(request).await;
    send(alone("a")).await.unwrap();
    send(alone("a")).await.expect("repeated");
    for second in [alone("b"), publish("v", "b")] {
        let refused = send(second).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("/var/lib/pods/a"), "{refused}");
    }
    assert!(!world.exists(&target("b")).await);
    world.unpublish("v", "a").await.unwrap();
    send(publish("v", "b")).await.expect("free again");
    send(publish("v", "c")).await.expect("the promise to the first has ended");
    assert_eq!(code(&send(alone("a")).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_group_gets_the_directory() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let send = async |group: &str, name: &str| {
        let request = Publish { volume_capability: Some(with_group(group)), ..publish("v", name) };
        world.node().node_publish_volume(request).await
    };
    send("1000", "a").await.unwrap();
    assert_eq!(world.machine.group(&data("v")), Some(1000));
    send("1000", "a").await.expect("repeated");
    send("1000", "b").await.expect("the same group");
    world.publish("v", "c").await.expect("without a wish");
    let refused = send("2000", "d").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("group 1000"), "{refused}");
    for name in ["a", "b", "c"] {
        world.unpublish("v", name).await.unwrap();
    }
    send("2000", "d").await.expect("nobody else has it");
    assert_eq!(world.machine.group(&data("v")), Some(2000));
    assert_eq!(code(&send("staff", "e").await), Code::InvalidArgument);
}

#[tokio::test]
async fn unpublishing() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.create("w").await.unwrap();
    world.publish("v", "a").await.unwrap();
    assert_eq!(code(&world.unpublish("w", "a").await), Code::FailedPrecondition, "another volume's target");
    assert_eq!(code(&world.unpublish("x", "a").await), Code::NotFound, "an unknown volume");
    assert_eq!(world.machine.mounts().len(), 1);
    // Two racing binds.
    world.host.kernel.bind(&data("v"), &target("a"), false).await.unwrap();
    world.unpublish("v", "a").await.unwrap();
    world.unpublish("v", "a").await.expect("twice");
    world.unpublish("x", "never").await.expect("nothing there");
    assert_eq!(world.machine.mounts(), []);
    assert!(!world.exists(&target("a")).await);

    world.host.disk.create_dir_all(&target("b"), 0o755).await.unwrap();
    world.write(&target("b").join("file")).await.unwrap();
    world.unpublish("v", "b").await.expect_err("files at the target are not ours");
    assert!(world.exists(&target("b").join("file")).await);
}

#[tokio::test]
async fn a_failed_bind_leaves_no_target() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.machine.fail_next("bind", 12);
    assert_eq!(code(&world.publish("v", "a").await), Code::Internal);
    assert!(!world.exists(&target("a")).await);
}

/// A mount over the pool would hide volumes, and the removal of a target in it could take one away.
#[tokio::test]
async fn the_pool_is_no_place_for_targets() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.create("w").await.unwrap();
    for path in [data("w"), data("w").join("sub"), "/var/lib/pool".into(), "/var/lib".into()] {
        let request = Publish { target_path: text(&path), ..publish("v", "a") };
        let answer = world.node().node_publish_volume(request).await;
        assert_eq!(code(&answer), Code::InvalidArgument, "{}", path.display());
        let request = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: text(&path) };
        let answer = world.node().node_unpublish_volume(request).await;
        assert_eq!(code(&answer), Code::InvalidArgument, "{}", path.display());
    }
    assert!(world.exists(&data("w")).await);
    assert_eq!(world.machine.mounts(), []);
}

/// The mount table knows no links, so neither may the paths that are compared with it.
#[tokio::test]
async fn targets_below_a_link() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.host.disk.symlink(&target(""), Path::new("/var/lib/link")).await.unwrap();
    let linked = || Publish { target_path: "/var/lib/link/a".into(), ..publish("v", "a") };
    world.node().node_publish_volume(linked()).await.unwrap();
    world.node().node_publish_volume(linked()).await.unwrap();
    world.publish("v", "a").await.expect("the same place");
    assert_eq!(world.machine.mounts().len(), 1);
    let request =
        csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: "/var/lib/link/a".into() };
    world.node().node_unpublish_volume(request).await.unwrap();
    assert_eq!(world.machine.mounts(), []);
    assert!(!world.exists(&target("a")).await);

    world.host.disk.symlink(Path::new("/var"), &target("b")).await.unwrap();
    assert_eq!(code(&world.publish("v", "b").await), Code::FailedPrecondition, "a link is no target");
    assert_eq!(world.host.disk.kind(&target("b")).await.unwrap(), Some(Kind::Symlink));
}

#[tokio::test]
async fn a_vanished_directory_is_reported() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.host.disk.remove_dir(&data("v")).await.unwrap();
    let refused = world.publish("v", "a").await.unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss);
    assert!(refused.message().contains(&text(&data("v"))), "{refused}");
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn statistics_are_those_of_the_filesystem_below() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.create("w").await.unwrap();
    world.publish("v", "a").await.unwrap();
    let ask = async |id: &str, path: &str| {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: id.into(),
            volume_path: path.into(),
            ..Default::default()
        };
        world.node().node_get_volume_stats(request).await.map(|answer| answer.into_inner())
    };
    let space = world.host.disk.space("/var/lib".as_ref()).await.unwrap();
    let usage = ask("v", "/var/lib/pods/a").await.unwrap().usage;
    assert_eq!(usage.iter().map(|usage| usage.unit()).collect::<Vec<_>>(), [Unit::Bytes, Unit::Inodes]);
    assert_eq!((usage[0].total as u64, usage[0].available as u64), (space.total, space.available));
    assert_eq!(usage[1].total as u64, space.inodes_total);
    assert!(usage.iter().all(|usage| usage.used == usage.total - usage.available));
    let table = [
        ("", "/var/lib/pods/a", Code::InvalidArgument),
        ("v", "", Code::InvalidArgument),
        ("x", "/var/lib/pods/a", Code::NotFound),
        ("w", "/var/lib/pods/a", Code::NotFound),
        ("v", "/var/lib/pods", Code::NotFound),
        ("v", "some/path", Code::NotFound),
    ];
    for (id, path, expected) in table {
        assert_eq!(code(&ask(id, path).await), expected, "{id} at {path}");
    }
}
