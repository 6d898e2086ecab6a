//! Paths through symbolic links, paths that are links, and paths that would hide the pool.

use std::path::Path;

use bowline_host::disk::Kind;
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{World, code, mount, publish, stage, staging, target, text};

const LINK: &str = "/var/kubelet";

/// The kubelet's directory by another name.
fn linked(path: &Path) -> String {
    text(Path::new(LINK).join(path.strip_prefix("/var/lib").unwrap()))
}

async fn world_with_link() -> World {
    let world = World::new().await;
    world.host.disk.symlink(Path::new("/var/lib"), Path::new(LINK)).await.unwrap();
    world
}

#[tokio::test]
async fn a_linked_directory_is_the_same_place() {
    let world = world_with_link().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
    let by_link =
        csi::NodeStageVolumeRequest { staging_target_path: linked(&staging("v")), ..stage("v", mount()) };
    for request in [by_link.clone(), stage("v", mount()), by_link] {
        world.node().node_stage_volume(request).await.unwrap();
        assert_eq!(world.machine.mounts().len(), 1);
    }
    assert_eq!(world.machine.mounts()[0].target, staging("v"));
    let by_link = csi::NodePublishVolumeRequest {
        staging_target_path: linked(&staging("v")),
        target_path: linked(&target("a")),
        ..publish("v", "a", mount())
    };
    for request in [by_link.clone(), publish("v", "a", mount()), by_link] {
        world.node().node_publish_volume(request).await.unwrap();
        assert_eq!(world.machine.mounts().len(), 2);
    }
    let world = world.restart().await;
    let undo = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: linked(&target("a")) };
    let unstage =
        csi::NodeUnstageVolumeRequest { volume_id: "v".into(), staging_target_path: linked(&staging("v")) };
    let early = world.node().node_unstage_volume(unstage.clone()).await;
    assert_eq!(code(&early), Code::FailedPrecondition, "published");
    for _ in 0..2 {
        world.node().node_unpublish_volume(undo.clone()).await.unwrap();
        assert!(!world.exists(&target("a")).await);
    }
    for _ in 0..2 {
        world.node().node_unstage_volume(unstage.clone()).await.unwrap();
        assert_eq!((world.machine.mounts(), world.machine.loops()), (vec![], vec![]));
    }
}

#[tokio::test]
async fn a_link_is_no_place_to_mount() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.create("w").await.unwrap();
    world.attach("w", mount()).await.unwrap();
    for (name, leads_to) in [("link", "/var/lib/pods"), ("dangling", "/nowhere")] {
        world.host.disk.symlink(Path::new(leads_to), &target(name)).await.unwrap();
        let path = text(target(name));
        let answers = [
            code(&world.publish("v", name, mount()).await),
            code(&world.unpublish("v", name).await),
            code(
                &world
                    .node()
                    .node_stage_volume(csi::NodeStageVolumeRequest {
                        staging_target_path: path.clone(),
                        ..stage("w", mount())
                    })
                    .await,
            ),
            code(
                &world
                    .node()
                    .node_unstage_volume(csi::NodeUnstageVolumeRequest {
                        volume_id: "w".into(),
                        staging_target_path: path,
                    })
                    .await,
            ),
        ];
        assert_eq!(answers, [Code::FailedPrecondition; 4], "{name}");
        assert_eq!(world.host.disk.kind(&target(name)).await.unwrap(), Some(Kind::Symlink), "{name}");
        assert_eq!(world.machine.mounts().len(), 1, "{name}");
    }
}

/// Neither in the pool, nor above it, nor by a link.
#[tokio::test]
async fn the_pool_is_no_place_to_mount() {
    let world = world_with_link().await;
    world.staged("v", mount()).await;
    world.create("w").await.unwrap();
    world.attach("w", mount()).await.unwrap();
    let before = world.machine.files();
    let near = [
        "/var/lib/pool",
        "/var/lib/pool/volumes/w",
        "/var/lib/pool/new",
        "/var/lib",
        "/var",
        "/var/kubelet/pool/x",
    ];
    for path in near.map(String::from) {
        let stage = csi::NodeStageVolumeRequest { staging_target_path: path.clone(), ..stage("w", mount()) };
        let publish =
            csi::NodePublishVolumeRequest { target_path: path.clone(), ..publish("v", "a", mount()) };
        let unstage =
            csi::NodeUnstageVolumeRequest { volume_id: "v".into(), staging_target_path: path.clone() };
        let unpublish = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: path.clone() };
        let answers = [
            code(&world.node().node_stage_volume(stage).await),
            code(&world.node().node_publish_volume(publish).await),
            code(&world.node().node_unstage_volume(unstage).await),
            code(&world.node().node_unpublish_volume(unpublish).await),
        ];
        assert_eq!(answers, [Code::InvalidArgument; 4], "{path}");
    }
    assert_eq!(world.machine.files(), before);
    assert_eq!(world.machine.mounts().len(), 1);
}
