//! Volumes that stand in a pod itself: made at publish, gone at unpublish.

use bowline_host::disk::Owner;
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::world::{World, code, create, data, inline, publish, target};

#[tokio::test]
async fn it_lives_from_publish_to_unpublish() {
    let world = World::new().await;
    world.publish_inline("csi-1", "a").await.unwrap();
    let owner = Owner { uid: None, gid: None, mode: 0o755 };
    assert_eq!(world.machine.owner(&data("csi-1")), Some(owner));
    world.write(&target("a").join("file")).await.unwrap();
    world.publish_inline("csi-1", "a").await.expect("repeated");
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
    world.unpublish("csi-1", "elsewhere").await.expect("not published there");
    assert!(world.exists(&data("csi-1")).await, "it stays until it is unpublished where it is");
    world.unpublish("csi-1", "a").await.unwrap();
    world.unpublish("csi-1", "a").await.expect("twice");
    world.assert_clean("unpublished").await;
}

#[tokio::test]
async fn it_is_nobody_elses() {
    let world = World::new().await;
    world.publish_inline("csi-1", "a").await.unwrap();
    let codes = [
        ("create", code(&world.controller().create_volume(create("csi-1")).await), Code::AlreadyExists),
        ("publish", code(&world.publish("csi-1", "b").await), Code::FailedPrecondition),
        ("second target", code(&world.publish_inline("csi-1", "b").await), Code::FailedPrecondition),
        ("expand", code(&world.expand("csi-1", 1).await), Code::NotFound),
        ("delete", code(&world.delete("csi-1").await), Code::FailedPrecondition),
    ];
    for (name, found, expected) in codes {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(world.machine.mounts().len(), 1);

    world.create("v").await.unwrap();
    assert_eq!(code(&world.publish_inline("v", "c").await), Code::FailedPrecondition, "a claim's volume");
    world.unpublish("v", "c").await.unwrap();
    assert!(world.exists(&data("v")).await, "a claim's volume outlives its targets");
}

#[tokio::test]
async fn what_is_wrong_in_the_pod_is_said() {
    let world = World::new().await;
    let with = |key: &str, value: &str| {
        let mut request = inline("csi-1", "a");
        request.volume_context.insert(key.into(), value.into());
        request
    };
    for request in [with("directoryMode", "drwx"), with("size", "1Gi"), with("uid", "root")] {
        let answer = world.node().node_publish_volume(request).await;
        assert_eq!(code(&answer), Code::InvalidArgument, "{answer:?}");
    }
    let other = with("csi.storage.k8s.io/ephemeral", "false");
    assert_eq!(code(&world.node().node_publish_volume(other).await), Code::NotFound);
    world.assert_clean("refused").await;
}

/// A provisioner notes its own name in the context of every volume it makes.
#[tokio::test]
async fn remarks_on_a_claims_volume_are_not_settings() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let context = [("storage.kubernetes.io/csiProvisionerIdentity".to_owned(), "someone".to_owned())];
    let request = csi::NodePublishVolumeRequest { volume_context: context.into(), ..publish("v", "a") };
    world.node().node_publish_volume(request).await.unwrap();
}

/// Nobody unpublishes what was never published.
#[tokio::test]
async fn a_failed_publish_leaves_nothing() {
    for operation in ["create_owned_dir", "bind"] {
        let world = World::new().await;
        world.machine.fail_next(operation, 5);
        assert_eq!(code(&world.publish_inline("csi-1", "a").await), Code::Internal, "{operation}");
        world.assert_clean(operation).await;
    }
}

/// A pod that is started again after a reboot finds its files, as it does in its other directories.
#[tokio::test]
async fn a_failed_republish_keeps_the_files() {
    let world = World::new().await;
    world.publish_inline("csi-1", "a").await.unwrap();
    world.write(&target("a").join("file")).await.unwrap();
    world.machine.reboot();
    let world = world.restart().await;
    world.machine.fail_next("bind", 12);
    assert_eq!(code(&world.publish_inline("csi-1", "a").await), Code::Internal);
    world.publish_inline("csi-1", "a").await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
}
