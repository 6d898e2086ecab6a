//! CreateVolume and ControllerExpandVolume.

use bowline_host::disk::{Kind, Owner};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, World, block, capability, code, create, data, expand};

type Create = csi::CreateVolumeRequest;

fn parameter(request: &mut Create, key: &str, value: &str) {
    request.parameters.insert(key.into(), value.into());
}

#[tokio::test]
async fn answers_to_a_first_create() {
    let table: [(&str, fn(&mut Create), Code); 16] = [
        ("as usual", |_| {}, Code::Ok),
        ("no name", |r| r.name.clear(), Code::InvalidArgument),
        ("a name too long", |r| r.name = "n".repeat(129), Code::InvalidArgument),
        ("no capability", |r| r.volume_capabilities.clear(), Code::InvalidArgument),
        ("block", |r| r.volume_capabilities.push(block()), Code::InvalidArgument),
        ("no mode", |r| r.volume_capabilities[0].access_mode = None, Code::InvalidArgument),
        ("no access type", |r| r.volume_capabilities[0].access_type = None, Code::InvalidArgument),
        ("a source", |r| r.volume_content_source = Some(Default::default()), Code::InvalidArgument),
        ("an unknown parameter", |r| parameter(r, "directorymode", "0777"), Code::InvalidArgument),
        ("a wrong mode", |r| parameter(r, "directoryMode", "rwxr-xr-x"), Code::InvalidArgument),
        (
            "a mutable parameter",
            |r| _ = r.mutable_parameters.insert("uid".into(), "1".into()),
            Code::InvalidArgument,
        ),
        ("a remark of the caller", |r| parameter(r, "csi.storage.k8s.io/pvc/name", "c"), Code::Ok),
        ("no size", |r| r.capacity_range = None, Code::Ok),
        (
            "a negative size",
            |r| r.capacity_range = Some(csi::CapacityRange { required_bytes: -1, limit_bytes: 0 }),
            Code::InvalidArgument,
        ),
        (
            "more than the pool has",
            |r| r.capacity_range = Some(csi::CapacityRange { required_bytes: i64::MAX, limit_bytes: 0 }),
            Code::ResourceExhausted,
        ),
        ("any mode", |r| r.volume_capabilities = every_mode(), Code::Ok),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        let mut request = create("v");
        change(&mut request);
        let answer = world.controller().create_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if expected != Code::Ok {
            world.assert_clean(name).await;
        }
    }
}

fn every_mode() -> Vec<csi::VolumeCapability> {
    let modes = [
        Mode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly,
        Mode::MultiNodeReaderOnly,
        Mode::MultiNodeSingleWriter,
        Mode::MultiNodeMultiWriter,
        Mode::SingleNodeSingleWriter,
        Mode::SingleNodeMultiWriter,
    ];
    modes.map(capability).into()
}

#[tokio::test]
async fn the_directory_belongs_to_whom_the_parameters_say() {
    let world = World::new().await;
    let mut request = create("v");
    parameter(&mut request, "directoryMode", "2775");
    parameter(&mut request, "uid", "1000");
    parameter(&mut request, "gid", "2000");
    world.controller().create_volume(request).await.unwrap();
    let owner = Owner { uid: Some(1000), gid: Some(2000), mode: 0o2775 };
    assert_eq!(world.machine.owner(&data("v")), Some(owner));

    world.create("w").await.unwrap();
    let owner = Owner { uid: None, gid: None, mode: 0o770 };
    assert_eq!(world.machine.owner(&data("w")), Some(owner));
}

#[tokio::test]
async fn the_same_name_is_the_same_volume() {
    let world = World::new().await;
    let first = world.controller().create_volume(create("v")).await.unwrap().into_inner();
    let mut again = create("v");
    parameter(&mut again, "csi.storage.k8s.io/pv/name", "differs between retries");
    assert_eq!(world.controller().create_volume(again).await.unwrap().into_inner(), first);
    let mut other = create("v");
    parameter(&mut other, "directoryMode", "0777");
    assert_eq!(code(&world.controller().create_volume(other).await), Code::AlreadyExists);
    let mut larger = create("v");
    larger.capacity_range = Some(csi::CapacityRange { required_bytes: 65 * MIB, limit_bytes: 0 });
    assert_eq!(code(&world.controller().create_volume(larger).await), Code::AlreadyExists);
}

/// Somebody's files without a record may be anybody's.
#[tokio::test]
async fn a_directory_without_a_record_is_not_adopted() {
    let world = World::new().await;
    world.host.disk.create_dir_all(&data("v"), 0o700).await.unwrap();
    assert_eq!(code(&world.create("v").await), Code::FailedPrecondition);
    assert_eq!(world.host.disk.kind(&data("v")).await.unwrap(), Some(Kind::Dir));
}

#[tokio::test]
async fn names_and_ids_never_lead_out_of_the_pool() {
    let world = World::new().await;
    for name in ["../x", "..", "a/b", "/etc/passwd", ".hidden", "snow ☃"] {
        let made = world.controller().create_volume(create(name)).await.unwrap().into_inner();
        let id = made.volume.unwrap().volume_id;
        assert!(id.starts_with("vol-") && world.exists(&data(&id)).await, "{id}");
        world.publish(&id, "a").await.unwrap();
        world.unpublish(&id, "a").await.unwrap();
        world.delete(&id).await.unwrap();
        world.assert_clean(name).await;
    }
    let before = world.machine.files();
    for id in ["../x", "..", "a/b", "/etc/passwd", "a\0b", ".hidden", &"x".repeat(300)] {
        assert_eq!(code(&world.publish(id, "a").await), Code::NotFound, "{id:?}");
        assert_eq!(code(&world.publish_inline(id, "a").await), Code::InvalidArgument, "{id:?}");
        assert_eq!(code(&world.expand(id, MIB).await), Code::NotFound, "{id:?}");
        assert_eq!(code(&world.unpublish(id, "a").await), Code::Ok, "{id:?}");
        assert_eq!(code(&world.delete(id).await), Code::Ok, "{id:?}");
    }
    assert_eq!(world.machine.files(), before);
}

#[tokio::test]
async fn expanding() {
    let table: [(&str, fn(&mut csi::ControllerExpandVolumeRequest), Result<i64, Code>); 8] = [
        ("larger", |_| {}, Ok(128 * MIB)),
        ("again", |_| {}, Ok(128 * MIB)),
        ("smaller", |r| r.capacity_range.as_mut().unwrap().required_bytes = 1, Ok(128 * MIB)),
        ("no size", |r| r.capacity_range = None, Err(Code::InvalidArgument)),
        ("an empty size", |r| r.capacity_range = Some(Default::default()), Err(Code::InvalidArgument)),
        ("block", |r| r.volume_capability = Some(block()), Err(Code::InvalidArgument)),
        ("unknown", |r| r.volume_id = "x".into(), Err(Code::NotFound)),
        (
            "more than the pool has",
            |r| r.capacity_range.as_mut().unwrap().required_bytes = i64::MAX,
            Err(Code::OutOfRange),
        ),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    for (name, change, expected) in table {
        let mut request = expand("v", 128 * MIB);
        change(&mut request);
        let answer = world.controller().controller_expand_volume(request).await;
        let answer = answer.map(|grown| grown.into_inner());
        assert!(answer.as_ref().is_ok_and(|grown| !grown.node_expansion_required) || expected.is_err());
        assert_eq!(answer.map(|grown| grown.capacity_bytes).map_err(|s| s.code()), expected, "{name}");
    }
    let world = world.restart().await;
    let request = csi::ControllerGetVolumeRequest { volume_id: "v".into() };
    let volume = world.controller().controller_get_volume(request).await.unwrap().into_inner().volume;
    assert_eq!(volume.unwrap().capacity_bytes, 128 * MIB, "the size survives a restart");
}
