//! VOLUME_MOUNT_GROUP: a volume belongs to the group that its user names.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::AccessType;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{NODE, World, attach, code, create, mount, mount_as, publish, stage, staging, target};

fn of(group: &str, mut capability: csi::VolumeCapability) -> csi::VolumeCapability {
    if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
        mount.volume_mount_group = group.into();
    }
    capability
}

#[tokio::test]
async fn answers() {
    let world = World::new().await;
    world.staged("v", of("1000", mount())).await;
    let table = [
        ("the same", "1000", Code::Ok),
        ("another", "1001", Code::AlreadyExists),
        ("none", "", Code::AlreadyExists),
        ("a name", "users", Code::InvalidArgument),
        ("negative", "-1", Code::InvalidArgument),
        ("too high", "4294967295", Code::InvalidArgument),
    ];
    for (name, group, expected) in table {
        let answer = world.node().node_stage_volume(stage("v", of(group, mount()))).await;
        assert_eq!(code(&answer), expected, "{name}");
        assert_eq!(world.machine.group(&staging("v")), Some(1000), "{name}");
    }
    let create = create("w", of("users", mount()));
    assert_eq!(code(&world.controller().create_volume(create).await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_target_may_have_another_group() {
    let world = World::new().await;
    world.staged("v", of("1000", mount())).await;
    for (name, group) in [("a", 1000), ("b", 1001), ("b", 1001), ("a", 1000)] {
        world.publish("v", name, of(&group.to_string(), mount())).await.unwrap();
        assert_eq!(world.machine.group(&target(name)), Some(group), "{name}");
    }
    world.publish("v", "c", mount()).await.unwrap();
    assert_eq!(world.machine.group(&staging("v")), Some(1000), "none asked for, none changed");
}

/// Changing the owner of what nobody may write is neither wanted nor possible.
#[tokio::test]
async fn what_is_read_only_keeps_its_group() {
    let reader = of("7", mount_as("ext4", Mode::SingleNodeReaderOnly));
    for (why, capability, attached, published) in [
        ("by mode", reader, false, false),
        ("by attachment", of("7", mount()), true, false),
        ("by target", of("7", mount()), false, true),
    ] {
        let world = World::new().await;
        world.controller().create_volume(create("v", capability.clone())).await.unwrap();
        let mut request = attach("v", NODE, capability.clone());
        request.readonly = attached;
        world.controller().controller_publish_volume(request).await.unwrap();
        let staged = if published { mount() } else { capability.clone() };
        world.stage("v", staged).await.unwrap();
        let mut request = publish("v", "a", capability);
        request.readonly = published;
        world.node().node_publish_volume(request).await.expect(why);
        assert_eq!(world.machine.group(&staging("v")), None, "{why}");
    }
}

#[tokio::test]
async fn a_group_that_cannot_be_given_leaves_nothing_mounted() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.machine.fail_next("set_group", 5);
    assert_eq!(code(&world.stage("v", of("7", mount())).await), Code::Internal);
    assert_eq!((world.machine.mounts(), world.machine.loops()), (vec![], vec![]));
    world.stage("v", of("7", mount())).await.unwrap();
    world.machine.fail_next("set_group", 5);
    assert_eq!(code(&world.publish("v", "a", of("8", mount())).await), Code::Internal);
    assert!(!world.exists(&target("a")).await);
}

/// Dying between mount and group leaves a mount that looks staged; the repeat still gives the group.
#[tokio::test(start_paused = true)]
async fn a_crash_before_the_group() {
    use super::doors::Fault;
    let mut number = 1;
    loop {
        let world = World::new().await;
        world.create("v").await.unwrap();
        world.attach("v", mount()).await.unwrap();
        world.host.disk.create_dir_all(&staging("v"), 0o755).await.unwrap();
        let world = world.restart_with(Fault::DieBefore(number)).await;
        let died = tokio::select! {
            biased;
            () = world.faults.died.notified() => true,
            answer = world.stage("v", of("7", mount())) => { answer.unwrap(); false }
        };
        let world = world.restart().await;
        world.stage("v", of("7", mount())).await.unwrap();
        assert_eq!(world.machine.group(&staging("v")), Some(7), "before effect {number}");
        assert_eq!(world.machine.mounts().len(), 1, "before effect {number}");
        if !died {
            break;
        }
        number += 1;
    }
    assert!(number > 6, "record, attach, marker, mkfs, mark, mount and group were hit, {number}");
}
