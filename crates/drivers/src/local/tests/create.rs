//! CreateVolume: names, sizes, capabilities, parameters, places.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, NODE, World, block, code, create, mount, mount_as, mount_with};
use crate::local::TOPOLOGY_KEY;

type Request = csi::CreateVolumeRequest;
type Change = fn(&mut Request);

fn place(node: &str) -> csi::Topology {
    csi::Topology { segments: [(TOPOLOGY_KEY.to_owned(), node.to_owned())].into() }
}

fn size(request: &mut Request, required_bytes: i64, limit_bytes: i64) {
    request.capacity_range = Some(csi::CapacityRange { required_bytes, limit_bytes });
}

fn snapshot_source() -> csi::VolumeContentSource {
    let snapshot = csi::volume_content_source::SnapshotSource { snapshot_id: "s".into() };
    csi::VolumeContentSource { r#type: Some(csi::volume_content_source::Type::Snapshot(snapshot)) }
}

#[tokio::test]
async fn answers_to_a_first_request() {
    let table: [(&str, Change, Code); 29] = [
        ("as usual", |_| {}, Code::Ok),
        ("no name", |r| r.name.clear(), Code::InvalidArgument),
        ("129 bytes of name", |r| r.name = "x".repeat(129), Code::InvalidArgument),
        ("control character in name", |r| r.name = "a\u{1}".into(), Code::InvalidArgument),
        ("no capabilities", |r| r.volume_capabilities.clear(), Code::InvalidArgument),
        ("no access type", |r| r.volume_capabilities[0].access_type = None, Code::InvalidArgument),
        ("no access mode", |r| r.volume_capabilities[0].access_mode = None, Code::InvalidArgument),
        (
            "unknown mode",
            |r| r.volume_capabilities = vec![mount_as("", Mode::Unknown)],
            Code::InvalidArgument,
        ),
        ("read by many nodes", |r| r.volume_capabilities = many(Mode::MultiNodeReaderOnly), Code::Ok),
        ("written by many", |r| r.volume_capabilities = many(Mode::MultiNodeMultiWriter), Code::Ok),
        ("one writer, many", |r| r.volume_capabilities = many(Mode::MultiNodeSingleWriter), Code::Ok),
        ("several pods", |r| r.volume_capabilities = many(Mode::SingleNodeMultiWriter), Code::Ok),
        ("one pod", |r| r.volume_capabilities = many(Mode::SingleNodeSingleWriter), Code::Ok),
        ("strange filesystem", |r| r.volume_capabilities = fs("zfs"), Code::InvalidArgument),
        ("two filesystems", |r| r.volume_capabilities.extend(fs("xfs")), Code::InvalidArgument),
        ("block and filesystem", |r| r.volume_capabilities.push(block()), Code::Ok),
        ("bind as flag", |r| r.volume_capabilities = vec![mount_with(&["bind"])], Code::InvalidArgument),
        ("unknown parameter", |r| _ = r.parameters.insert("sise".into(), "1".into()), Code::InvalidArgument),
        ("remark", |r| _ = r.parameters.insert("csi.storage.k8s.io/pvc/name".into(), "a".into()), Code::Ok),
        ("mutable", |r| _ = r.mutable_parameters.insert("a".into(), "1".into()), Code::InvalidArgument),
        ("unknown source", |r| r.volume_content_source = Some(snapshot_source()), Code::NotFound),
        ("negative size", |r| size(r, -1, 0), Code::InvalidArgument),
        ("required above limit", |r| size(r, 2 * MIB, MIB), Code::InvalidArgument),
        ("rounding above limit", |r| size(r, MIB + 1, MIB + 2), Code::OutOfRange),
        ("larger than the pool", |r| size(r, 2 << 40, 0), Code::OutOfRange),
        ("here", |r| requisite(r, &["elsewhere", NODE]), Code::Ok),
        ("elsewhere", |r| requisite(r, &["elsewhere"]), Code::ResourceExhausted),
        ("prefers elsewhere", |r| prefer(r, &["elsewhere"]), Code::Ok),
        ("secret", |r| _ = r.secrets.insert("key".into(), "s3cret".into()), Code::Ok),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        let mut request = create("v", mount());
        change(&mut request);
        let answer = world.controller().create_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if expected != Code::Ok {
            world.assert_clean(name).await;
        }
    }
}

fn many(mode: Mode) -> Vec<csi::VolumeCapability> {
    vec![mount_as("ext4", mode)]
}

fn fs(fs: &str) -> Vec<csi::VolumeCapability> {
    vec![mount_as(fs, Mode::SingleNodeWriter)]
}

fn requisite(request: &mut Request, nodes: &[&str]) {
    let requisite = nodes.iter().map(|node| place(node)).collect();
    request.accessibility_requirements = Some(csi::TopologyRequirement { requisite, preferred: Vec::new() });
}

fn prefer(request: &mut Request, nodes: &[&str]) {
    let preferred = nodes.iter().map(|node| place(node)).collect();
    request.accessibility_requirements = Some(csi::TopologyRequirement { requisite: Vec::new(), preferred });
}

#[tokio::test]
async fn answers_to_a_second_request_of_the_same_name() {
    let table: [(&str, Change, Code); 12] = [
        ("the same", |_| {}, Code::Ok),
        ("less is there", |r| size(r, MIB, 0), Code::Ok),
        ("more is not", |r| size(r, 65 * MIB, 0), Code::AlreadyExists),
        ("limit below", |r| size(r, 0, 63 * MIB), Code::AlreadyExists),
        ("another single-node mode", |r| r.volume_capabilities = many(Mode::SingleNodeMultiWriter), Code::Ok),
        ("another filesystem", |r| r.volume_capabilities = fs("xfs"), Code::AlreadyExists),
        ("default is ext4", |r| r.volume_capabilities = fs(""), Code::Ok),
        ("block", |r| r.volume_capabilities = vec![block()], Code::AlreadyExists),
        ("elsewhere", |r| requisite(r, &["elsewhere"]), Code::AlreadyExists),
        ("here", |r| requisite(r, &[NODE]), Code::Ok),
        (
            "other remarks",
            |r| _ = r.parameters.insert("csi.storage.k8s.io/pv/name".into(), "b".into()),
            Code::Ok,
        ),
        ("other secrets", |r| _ = r.secrets.insert("key".into(), "other".into()), Code::Ok),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        let first = world.controller().create_volume(create("v", mount())).await.unwrap().into_inner();
        let mut request = create("v", mount());
        change(&mut request);
        let answer = world.controller().create_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}");
        if let Ok(second) = answer {
            assert_eq!(second.into_inner(), first, "{name}");
        }
    }
}

#[tokio::test]
async fn the_volume_is_what_was_asked_for() {
    let world = World::new().await;
    let mut request = create("pvc-1", mount_as("xfs", Mode::SingleNodeWriter));
    request.capacity_range = None;
    let volume = world.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.volume_id, "pvc-1");
    assert_eq!(volume.capacity_bytes, 1 << 30);
    assert_eq!(volume.accessible_topology, [place(NODE)]);
    assert_eq!(volume.content_source, None);
    assert_eq!(world.host.disk.length(&world.image("pvc-1")).await.unwrap(), 1 << 30);
}

#[tokio::test]
async fn no_secret_is_written_down() {
    let world = World::new().await;
    let mut request = create("v", mount_with(&["noatime"]));
    request.secrets.insert("key".into(), "s3cret".into());
    world.controller().create_volume(request).await.unwrap();
    world.attach("v", mount_with(&["noatime"])).await.unwrap();
    let refused = world.stage("v", mount_with(&["noatime", "data=s3cret"])).await.unwrap_err();
    assert!(refused.message().contains("`data`") && !refused.message().contains("s3cret"), "{refused}");
    world.stage("v", mount_with(&["noatime"])).await.unwrap();
    for (path, bytes) in world.machine.files() {
        assert!(!String::from_utf8_lossy(&bytes).contains("s3cret"), "{}", path.display());
    }
}

#[tokio::test]
async fn a_full_disk_is_an_exhausted_resource() {
    let world = World::new().await;
    world.machine.fail_next("create_sparse", 28);
    assert_eq!(code(&world.create("v").await), Code::ResourceExhausted);
    world.create("v").await.expect("room again");
}

#[tokio::test]
async fn bytes_without_a_record_are_not_adopted() {
    let world = World::new().await;
    let image = world.image("v");
    world.host.disk.create_dir_all(image.parent().unwrap(), 0o700).await.unwrap();
    world.host.disk.write_atomic(&image, b"somebody's", 0o600).await.unwrap();
    assert_eq!(code(&world.create("v").await), Code::FailedPrecondition);
    assert_eq!(world.host.disk.read(&image).await.unwrap(), b"somebody's");
}
