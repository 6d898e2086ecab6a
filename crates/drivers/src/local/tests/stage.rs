//! NodeStageVolume and NodeUnstageVolume for filesystems.

use std::path::Path;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{
    OTHER_NODE, World, attach, block, code, mount, mount_as, mount_with, stage, staging, text,
};

type Stage = csi::NodeStageVolumeRequest;

#[tokio::test]
async fn answers_to_a_first_stage() {
    let table: [(&str, fn(&mut Stage), Code); 12] = [
        ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
        ("no path", |r| r.staging_target_path.clear(), Code::InvalidArgument),
        ("relative path", |r| r.staging_target_path = "some/path".into(), Code::InvalidArgument),
        ("climbing path", |r| r.staging_target_path = "/a/../b".into(), Code::InvalidArgument),
        ("root", |r| r.staging_target_path = "/".into(), Code::InvalidArgument),
        ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
        ("unknown", |r| r.volume_id = "x".into(), Code::NotFound),
        ("impossible", |r| r.volume_id = "../v".into(), Code::NotFound),
        ("as block", |r| r.volume_capability = Some(block()), Code::FailedPrecondition),
        (
            "as xfs",
            |r| r.volume_capability = Some(mount_as("xfs", Mode::SingleNodeWriter)),
            Code::FailedPrecondition,
        ),
        ("no directory", |r| r.staging_target_path = "/var/lib/missing".into(), Code::FailedPrecondition),
        ("as usual", |_| {}, Code::Ok),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
    for (name, change, expected) in table {
        let mut request = stage("v", mount());
        change(&mut request);
        let answer = world.node().node_stage_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if expected != Code::Ok {
            assert_eq!(world.machine.loops(), [], "{name}");
        }
    }
}

#[tokio::test]
async fn answers_to_a_second_stage() {
    let table: [(&str, fn(&mut Stage), Code); 5] = [
        ("the same", |_| {}, Code::Ok),
        ("other spelling of the path", |r| r.staging_target_path.push('/'), Code::Ok),
        ("other flags", |r| r.volume_capability = Some(mount_with(&["noatime"])), Code::AlreadyExists),
        (
            "other mode",
            |r| r.volume_capability = Some(mount_as("ext4", Mode::SingleNodeSingleWriter)),
            Code::AlreadyExists,
        ),
        ("other path", |r| r.staging_target_path = "/var/lib/staging".into(), Code::FailedPrecondition),
    ];
    let world = World::new().await;
    world.staged("v", mount()).await;
    for (name, change, expected) in table {
        let mut request = stage("v", mount());
        change(&mut request);
        let answer = world.node().node_stage_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        assert_eq!(world.machine.mounts().len(), 1, "{name}");
    }
}

/// ATT-2 from the node's side: only the node that holds the volume may stage it.
#[tokio::test]
async fn only_where_it_is_published() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    assert_eq!(code(&world.stage("v", mount()).await), Code::FailedPrecondition, "nowhere");
    world.controller().controller_publish_volume(attach("v", OTHER_NODE, mount())).await.unwrap();
    assert_eq!(code(&world.stage("v", mount()).await), Code::FailedPrecondition, "elsewhere");
}

#[tokio::test]
async fn mount_flags_reach_the_kernel() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.stage("v", mount_with(&["noatime"])).await.unwrap();
    assert!(world.machine.mounts()[0].options.contains(&"noatime".to_owned()));
}

/// Device names are reused, so a mount at the right path may be another volume's.
#[tokio::test]
async fn another_volume_at_the_staging_path_is_noticed() {
    let world = World::new().await;
    world.staged("other", mount()).await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    let mut request = stage("v", mount());
    request.staging_target_path = text(staging("other"));
    assert_eq!(code(&world.node().node_stage_volume(request).await), Code::FailedPrecondition);
    let wrong =
        csi::NodeUnstageVolumeRequest { volume_id: "v".into(), staging_target_path: text(staging("other")) };
    assert_eq!(code(&world.node().node_unstage_volume(wrong).await), Code::FailedPrecondition);
    assert_eq!(world.machine.mounts().len(), 1);
}

#[tokio::test]
async fn unstaging() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    let refused = world.unstage("v").await;
    assert_eq!(code(&refused), Code::FailedPrecondition, "a workload still has it");
    assert!(refused.unwrap_err().message().contains("/var/lib/pods/a"));

    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    assert_eq!((world.machine.mounts(), world.machine.loops()), (vec![], vec![]));
    world.unstage("v").await.expect("twice");
    world.unstage("unknown").await.expect("nothing there");
    world.unstage("").await.expect_err("no id");
}

#[tokio::test]
async fn stacked_mounts_all_go() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    let path = staging("v");
    world.host.kernel.bind(&path, &path, false).await.unwrap();
    assert_eq!(world.machine.mounts().len(), 2);
    world.unstage("v").await.unwrap();
    assert_eq!(world.machine.mounts(), []);
}

#[tokio::test]
async fn an_unknown_volume_cannot_unmount_what_is_not_its_own() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    let request =
        csi::NodeUnstageVolumeRequest { volume_id: "x".into(), staging_target_path: text(staging("v")) };
    assert_eq!(code(&world.node().node_unstage_volume(request).await), Code::NotFound);
    let request = csi::NodeUnpublishVolumeRequest { volume_id: "x".into(), target_path: text(staging("v")) };
    assert_eq!(code(&world.node().node_unpublish_volume(request).await), Code::NotFound);
    assert_eq!(world.machine.mounts().len(), 1);
}

/// A caller told of a final failure does not unstage; the volume must still be deletable.
#[tokio::test]
async fn a_failed_stage_leaves_nothing_attached() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    for operation in ["content", "make_filesystem", "mount"] {
        world.machine.fail_next(operation, 5);
        assert_eq!(code(&world.stage("v", mount()).await), Code::Internal, "{operation}");
        assert_eq!(world.machine.loops(), [], "{operation}");
    }
    world.stage("v", mount()).await.unwrap();
    world.unstage("v").await.unwrap();
    world.machine.fail_next("check_filesystem", 5);
    assert_eq!(code(&world.stage("v", mount()).await), Code::Internal, "check");
    world.detach("v").await.unwrap();
    world.delete("v").await.unwrap();
    assert!(!world.exists(Path::new("/var/lib/pool/volumes/v")).await);
}
