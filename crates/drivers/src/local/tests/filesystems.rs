//! Filesystems as a class wants them, copies beside their origins, and what is damaged.

use bowline_host::kernel::Content;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{World, block, code, create, mount, mount_as, mount_with, staging, target, text};
use crate::capability::{Capability, FsType};
use crate::id::VolumeId;
use crate::local::record::{Contents, Source, VolumeRecord};

fn class(name: &str, fs: &str, parameters: &[(&str, &str)]) -> csi::CreateVolumeRequest {
    let parameters = parameters.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    csi::CreateVolumeRequest { parameters, ..create(name, mount_as(fs, Mode::SingleNodeWriter)) }
}

async fn record(world: &World, id: &str) -> VolumeRecord {
    serde_json::from_slice(&world.host.disk.read(&world.record_path(id)).await.unwrap()).unwrap()
}

async fn set_record(world: &World, id: &str, record: &VolumeRecord) {
    let bytes = serde_json::to_vec(record).unwrap();
    world.host.disk.write_atomic(&world.record_path(id), &bytes, 0o600).await.unwrap();
}

#[tokio::test]
async fn what_a_class_may_ask_for() {
    let bad = Code::InvalidArgument;
    let table: [(&str, &str, &[(&str, &str)], Code); 14] = [
        ("nothing", "", &[], Code::Ok),
        ("filesystem", "", &[("fsType", "btrfs")], Code::Ok),
        ("the same twice", "xfs", &[("fsType", "xfs")], Code::Ok),
        ("two", "xfs", &[("fsType", "ext4")], bad),
        ("strange one", "", &[("fsType", "zfs")], bad),
        ("options", "ext4", &[("mkfsOptions", "-b 4096 -m 1")], Code::Ok),
        ("files of this machine", "ext4", &[("mkfsOptions", "-d etc")], bad),
        ("another device", "xfs", &[("mkfsOptions", "-l logdev=sda")], bad),
        ("options of another filesystem", "xfs", &[("mkfsOptions", "-I 256")], bad),
        ("path", "ext4", &[("mkfsOptions", "-E root_owner=/")], bad),
        ("label", "xfs", &[("fsLabel", "twelve bytes")], Code::Ok),
        ("long label", "xfs", &[("fsLabel", "thirteen byte")], bad),
        ("misspelt", "", &[("fstype", "xfs")], bad),
        ("all", "", &[("fsType", "btrfs"), ("mkfsOptions", "-m single"), ("fsLabel", "data")], Code::Ok),
    ];
    for (name, fs, parameters, expected) in table {
        let world = World::new().await;
        let request = class("v", fs, parameters);
        let answer = world.controller().create_volume(request.clone()).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if expected != Code::Ok {
            world.assert_clean(name).await;
            continue;
        }
        world.controller().create_volume(request).await.expect("repeated");
        let stored = record(&world, "v").await.parameters;
        assert_eq!(stored.len(), parameters.len(), "{name}");
        if !parameters.is_empty() {
            let other = world.controller().create_volume(class("v", fs, &[("fsLabel", "other")])).await;
            assert_eq!(code(&other), Code::AlreadyExists, "{name}: with other parameters");
        }
    }
}

#[tokio::test]
async fn the_class_decides_size_and_kind() {
    let world = World::new().await;
    world.controller().create_volume(class("v", "", &[("fsType", "btrfs")])).await.unwrap();
    let made = record(&world, "v").await;
    assert_eq!((made.access.filesystem, made.capacity), (Some(FsType::Btrfs), 109 << 20));
    let request = csi::GetCapacityRequest {
        volume_capabilities: vec![mount_as("", Mode::SingleNodeWriter)],
        parameters: [("fsType".to_owned(), "btrfs".to_owned())].into(),
        ..Default::default()
    };
    let room = world.controller().get_capacity(request).await.unwrap().into_inner();
    assert_eq!(room.minimum_volume_size, Some(109 << 20));

    world.attach("v", mount_as("", Mode::SingleNodeWriter)).await.unwrap();
    world.stage("v", mount_as("", Mode::SingleNodeWriter)).await.unwrap();
    assert_eq!(world.machine.mounts()[0].fs_type, "btrfs");
}

/// One class serves claims of both kinds.
#[tokio::test]
async fn a_block_volume_has_no_use_for_it() {
    let world = World::new().await;
    let mut request = class("v", "", &[("fsType", "xfs"), ("fsLabel", "data")]);
    request.volume_capabilities = vec![block()];
    world.controller().create_volume(request).await.unwrap();
    assert_eq!(record(&world, "v").await.access.filesystem, None);
}

#[tokio::test]
async fn parameters_are_confirmed_when_asked_about() {
    let world = World::new().await;
    let parameters = [("fsLabel".to_owned(), "data".to_owned())];
    world.controller().create_volume(class("v", "ext4", &[("fsLabel", "data")])).await.unwrap();
    let other = [("fsLabel".to_owned(), "other".to_owned())];
    let table =
        [("asked", Some(&parameters), true), ("not asked", None, true), ("other", Some(&other), false)];
    for (name, asked, confirmed) in table {
        let request = csi::ValidateVolumeCapabilitiesRequest {
            volume_id: "v".into(),
            volume_capabilities: vec![mount()],
            parameters: asked.cloned().map(Into::into).unwrap_or_default(),
            ..Default::default()
        };
        let answer = world.controller().validate_volume_capabilities(request.clone()).await.unwrap();
        let answer = answer.into_inner().confirmed;
        assert_eq!(answer.is_some(), confirmed, "{name}");
        if let Some(answer) = answer {
            assert_eq!(answer.parameters, request.parameters, "{name}");
        }
    }
}

/// Turns volume `copy` into what SNAP leaves: the bytes of `origin`, never mounted.
async fn copy(world: World, fs: FsType) -> World {
    world.host.disk.copy(&world.image("origin"), &world.image("copy")).await.unwrap();
    let source = Some(Source::Volume(VolumeId::for_name("origin")));
    let copied = VolumeRecord { contents: Contents::Copied(fs), source, ..record(&world, "copy").await };
    set_record(&world, "copy", &copied).await;
    world.restart().await
}

/// Either may be mounted first, as both kernels and callers like.
#[tokio::test]
async fn a_copy_is_mounted_beside_its_origin() {
    for fs in [FsType::Ext4, FsType::Xfs, FsType::Btrfs] {
        for order in [["origin", "copy"], ["copy", "origin"]] {
            let world = World::new().await;
            let capability = || mount_as(fs.as_str(), Mode::SingleNodeWriter);
            world.staged("origin", capability()).await;
            let file = staging("origin").join("file");
            world.host.disk.write_atomic(&file, b"data", 0o600).await.unwrap();
            world.unstage("origin").await.unwrap();
            world.controller().create_volume(create("copy", capability())).await.unwrap();
            world.attach("copy", capability()).await.unwrap();
            let world = copy(world, fs).await;
            for id in order {
                world.stage(id, capability()).await.unwrap_or_else(|e| panic!("{fs:?} {order:?}: {e}"));
                assert_eq!(world.host.disk.read(&staging(id).join("file")).await.unwrap(), b"data", "{fs:?}");
            }
            assert_eq!(record(&world, "copy").await.contents, Contents::Formatted(fs));
        }
    }
}

/// The record says `Copied` until the identity is new, so a failure before that is made good.
#[tokio::test]
async fn an_identity_is_renewed_until_it_is() {
    let world = World::new().await;
    let capability = || mount_as("btrfs", Mode::SingleNodeWriter);
    world.staged("origin", capability()).await;
    world.controller().create_volume(create("copy", capability())).await.unwrap();
    world.attach("copy", capability()).await.unwrap();
    let world = copy(world, FsType::Btrfs).await;
    world.machine.fail_next("renew_identity", 5);
    assert_eq!(code(&world.stage("copy", capability()).await), Code::Internal);
    assert_eq!(record(&world, "copy").await.contents, Contents::Copied(FsType::Btrfs));
    assert_eq!(world.machine.loops().len(), 1, "only the origin stays attached");
    world.machine.fail_next("mount", 5);
    assert_eq!(code(&world.stage("copy", capability()).await), Code::Internal);
    world.stage("copy", capability()).await.unwrap();
    assert_eq!(world.machine.mounts().len(), 2);
}

/// Dying at any effect of a copy's first staging leaves one that the next staging completes.
#[tokio::test(start_paused = true)]
async fn a_crash_before_a_copy_is_mounted() {
    use crate::doors::Fault;
    for kind in [Fault::DieBefore, Fault::DieAfter] {
        let mut number = 1;
        loop {
            let world = World::new().await;
            let capability = || mount_as("btrfs", Mode::SingleNodeWriter);
            world.staged("origin", capability()).await;
            world.controller().create_volume(create("copy", capability())).await.unwrap();
            world.attach("copy", capability()).await.unwrap();
            let world = copy(world, FsType::Btrfs).await.restart_with(kind(number)).await;
            let died = tokio::select! {
                biased;
                () = world.faults.died.notified() => true,
                answer = world.stage("copy", capability()) => { answer.unwrap(); false }
            };
            let world = world.restart().await;
            world.stage("copy", capability()).await.unwrap();
            assert_eq!(world.machine.mounts().len(), 2, "{:?}", kind(number));
            assert_eq!(record(&world, "copy").await.contents, Contents::Formatted(FsType::Btrfs));
            if !died {
                break;
            }
            number += 1;
        }
        assert!(number > 5, "record, attach, identity, record and mount were hit, {number}");
    }
}

/// A destroyed superblock leaves bytes that no probe looks at.
#[tokio::test]
async fn an_image_with_data_anywhere_is_not_a_new_one() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    let image = world.image("v");
    world.machine.write_device(&image, 20 << 20, b"somebody's").unwrap();
    world.machine.set_content(&image, Content::Empty);
    let before = world.machine.files();
    let refused = world.stage("v", mount()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("unknown data at byte 20971520"), "{}", refused.message());
    assert_eq!(world.machine.files()[&image], before[&image]);
}

/// The answer names the volume and what to run.
#[tokio::test]
async fn damage_is_for_a_person_to_repair() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.unstage("v").await.unwrap();
    for found_by in ["check_filesystem", "mount"] {
        world.machine.fail_next(found_by, 117);
        let damaged = world.stage("v", mount()).await.unwrap_err();
        assert_eq!(damaged.code(), Code::DataLoss, "{found_by}");
        let run = "run `e2fsck -f /var/lib/pool/volumes/v/disk.img`";
        assert!(damaged.message().contains("volume `v`") && damaged.message().contains(run), "{damaged}");
        assert_eq!(world.machine.loops(), [], "free to be repaired");
    }
}

/// Goal: a volume whose options an earlier version accepted goes on where it is staged, published and grown; only making
/// and mounting its filesystem is refused.
#[tokio::test]
async fn options_of_an_earlier_version_do_not_stop_a_volume_in_use() {
    let world = World::new().await;
    let old = || mount_with(&["option-of-an-earlier-version"]);
    let refused = world.controller().create_volume(create("w", old())).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");

    world.create("v").await.unwrap();
    world.attach("v", old()).await.expect("given to the node as before");
    let refused = world.stage("v", old()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert_eq!(world.machine.loops(), [], "nothing was attached or formatted");

    world.controller().create_volume(create("v", old())).await.expect("it exists");

    // As the earlier version left it: the digest of what it staged with is on record.
    world.stage("v", mount()).await.unwrap();
    let (path, [new, digest]) = (world.record_path("v"), [mount(), old()].map(|c| digest(&c)));
    let record = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
    assert!(record.contains(&new), "{record}");
    let record = record.replace(&new, &digest);
    world.host.disk.write_atomic(&path, record.as_bytes(), 0o600).await.unwrap();
    let world = world.restart().await;
    world.attach("v", old()).await.unwrap();
    world.stage("v", old()).await.expect("staged already");
    world.publish("v", "a", old()).await.unwrap();
    let grow = csi::ControllerExpandVolumeRequest {
        volume_id: "v".into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 128 << 20, limit_bytes: 0 }),
        volume_capability: Some(old()),
        ..Default::default()
    };
    world.controller().controller_expand_volume(grow).await.unwrap();
    let grow = csi::NodeExpandVolumeRequest {
        volume_id: "v".into(),
        volume_path: text(target("a")),
        volume_capability: Some(old()),
        ..Default::default()
    };
    world.node().node_expand_volume(grow).await.unwrap();
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
}

fn digest(capability: &csi::VolumeCapability) -> String {
    Capability::parse(capability).unwrap().digest()
}
