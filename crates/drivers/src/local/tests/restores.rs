//! CreateVolume from a snapshot or from another volume.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use tonic::{Code, Status};

use super::world::{MIB, NODE, World, block, code, create, mount, mount_as, target};
use crate::doors::Fault;
use crate::local::TOPOLOGY_KEY;

type Request = csi::CreateVolumeRequest;

pub fn snapshot_source(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Snapshot(SnapshotSource { snapshot_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

pub fn volume_source(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Volume(VolumeSource { volume_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

impl World {
    pub async fn make(
        &self,
        name: &str,
        capability: csi::VolumeCapability,
        source: Option<csi::VolumeContentSource>,
    ) -> Result<csi::Volume, Status> {
        let request = Request { volume_content_source: source, ..create(name, capability) };
        Ok(self.controller().create_volume(request).await?.into_inner().volume.unwrap())
    }

    pub async fn read(&self, name: &str) -> String {
        let bytes = self.host.disk.read(&target(name).join("file")).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub async fn use_it(&self, id: &str) {
        self.attach(id, mount()).await.unwrap();
        self.stage(id, mount()).await.unwrap();
        self.publish(id, id, mount()).await.unwrap();
    }
}

fn size(request: &mut Request, required_bytes: i64, limit_bytes: i64) {
    request.capacity_range = Some(csi::CapacityRange { required_bytes, limit_bytes });
}

fn place(request: &mut Request, node: &str) {
    let segments = [(TOPOLOGY_KEY.to_owned(), node.to_owned())].into();
    let requisite = vec![csi::Topology { segments }];
    request.accessibility_requirements = Some(csi::TopologyRequirement { requisite, preferred: Vec::new() });
}

#[tokio::test]
async fn answers_to_a_first_request() {
    let table: [(&str, fn(&mut Request), Result<i64, Code>); 17] = [
        ("a snapshot", |r| r.volume_content_source = snapshot_source("s"), Ok(64)),
        ("a volume", |r| r.volume_content_source = volume_source("v"), Ok(64)),
        ("unknown snapshot", |r| r.volume_content_source = snapshot_source("x"), Err(Code::NotFound)),
        ("unknown volume", |r| r.volume_content_source = volume_source("x"), Err(Code::NotFound)),
        ("itself", |r| r.volume_content_source = volume_source("r"), Err(Code::NotFound)),
        ("impossible snapshot", |r| r.volume_content_source = snapshot_source("../s"), Err(Code::NotFound)),
        ("impossible volume", |r| r.volume_content_source = volume_source("../v"), Err(Code::NotFound)),
        ("no snapshot", |r| r.volume_content_source = snapshot_source(""), Err(Code::InvalidArgument)),
        ("no volume", |r| r.volume_content_source = volume_source(""), Err(Code::InvalidArgument)),
        (
            "no kind of source",
            |r| r.volume_content_source = Some(csi::VolumeContentSource::default()),
            Err(Code::InvalidArgument),
        ),
        ("smaller", |r| size(r, MIB, 0), Err(Code::OutOfRange)),
        ("limit below the source", |r| size(r, 0, 63 * MIB), Err(Code::OutOfRange)),
        ("larger", |r| size(r, 128 * MIB, 0), Ok(128)),
        ("any size", |r| r.capacity_range = None, Ok(64)),
        (
            "another filesystem",
            |r| r.volume_capabilities = vec![mount_as("xfs", Mode::SingleNodeWriter)],
            Err(Code::InvalidArgument),
        ),
        ("here", |r| place(r, NODE), Ok(64)),
        ("elsewhere", |r| place(r, "elsewhere"), Err(Code::ResourceExhausted)),
    ];
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.snapshot("s", "v").await.unwrap();
    for (name, change, expected) in table {
        let mut request = Request { volume_content_source: snapshot_source("s"), ..create("r", mount()) };
        change(&mut request);
        let asked = request.volume_content_source.clone();
        let answer = world.controller().create_volume(request.clone()).await;
        let answer = answer.map(|answer| answer.into_inner().volume.unwrap());
        let got = answer.as_ref().map(|volume| volume.capacity_bytes / MIB).map_err(Status::code);
        assert_eq!(got, expected, "{name}: {answer:?}");
        match answer {
            Ok(volume) => {
                assert_eq!(volume.content_source, asked, "{name}");
                let length = world.host.disk.length(&world.image("r")).await.unwrap();
                assert_eq!(i64::try_from(length).unwrap(), volume.capacity_bytes, "{name}");
                let again = world.controller().create_volume(request).await.unwrap().into_inner();
                assert_eq!(again.volume, Some(volume.clone()), "{name}, again");
                let get = csi::ControllerGetVolumeRequest { volume_id: "r".into() };
                let get = world.controller().controller_get_volume(get).await.unwrap().into_inner();
                assert_eq!(get.volume, Some(volume), "{name}, asked for");
                world.use_it("r").await;
                assert_eq!(world.read("r").await, "data", "{name}");
                world.take_down("r").await;
                world.delete("r").await.unwrap();
            }
            Err(_) => assert!(!world.exists(&world.image("r")).await, "{name}"),
        }
    }
}

#[tokio::test]
async fn answers_to_a_second_request_of_the_same_name() {
    let table: [(&str, fn(&mut Request), Code); 6] = [
        ("the same", |_| {}, Code::Ok),
        ("another snapshot", |r| r.volume_content_source = snapshot_source("t"), Code::AlreadyExists),
        ("a volume", |r| r.volume_content_source = volume_source("v"), Code::AlreadyExists),
        ("no source", |r| r.volume_content_source = None, Code::AlreadyExists),
        ("more", |r| size(r, 400 * MIB, 0), Code::AlreadyExists),
        ("any filesystem", |r| r.volume_capabilities = vec![mount_as("", Mode::SingleNodeWriter)], Code::Ok),
    ];
    let world = World::new().await;
    let xfs = || mount_as("xfs", Mode::SingleNodeWriter);
    world.staged("v", xfs()).await;
    world.snapshot("s", "v").await.unwrap();
    world.snapshot("t", "v").await.unwrap();
    let request = || Request {
        capacity_range: None,
        volume_content_source: snapshot_source("s"),
        ..create("r", xfs())
    };
    let first = world.controller().create_volume(request()).await.unwrap().into_inner();
    world.delete_snapshot("s").await.expect("what was made from it needs it no longer");
    for (name, change, expected) in table {
        let mut request = request();
        change(&mut request);
        let answer = world.controller().create_volume(request).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        if let Ok(second) = answer {
            assert_eq!(second.into_inner(), first, "{name}");
        }
    }
    world.create("plain").await.unwrap();
    let answer = world.make("plain", mount(), volume_source("v")).await;
    assert_eq!(code(&answer), Code::AlreadyExists, "made without a source");
}

/// The snapshot keeps its moment: neither its volume nor what is made from it changes it.
#[tokio::test]
async fn each_goes_its_own_way() {
    let world = World::new().await;
    world.in_use("v", "one").await;
    world.snapshot("s", "v").await.unwrap();
    world.write("v", "two").await;
    world.make("c", mount(), volume_source("v")).await.unwrap();
    world.write("v", "three").await;
    world.make("r", mount(), snapshot_source("s")).await.unwrap();
    world.use_it("r").await;
    world.use_it("c").await;
    assert_eq!((world.read("r").await, world.read("c").await), ("one".into(), "two".into()));
    world.write("r", "four").await;
    assert_eq!(world.read("v").await, "three");
    world.take_down("v").await;
    world.delete("v").await.expect("neither snapshots nor clones hold it");
    world.make("q", mount(), snapshot_source("s")).await.unwrap();
    world.use_it("q").await;
    assert_eq!(world.read("q").await, "one");
    let request = csi::ListVolumesRequest::default();
    let listed = world.controller().list_volumes(request).await.unwrap().into_inner().entries;
    let sources: Vec<_> = listed.into_iter().map(|e| e.volume.unwrap().content_source).collect();
    assert_eq!(sources, [volume_source("v"), snapshot_source("s"), snapshot_source("s")]);
    for id in ["q", "r", "c"] {
        world.take_down(id).await;
        world.delete(id).await.unwrap();
    }
    world.delete_snapshot("s").await.unwrap();
    world.assert_clean("all gone").await;
}

/// Bytes of a block volume stay bytes; nothing in them is ever formatted away.
#[tokio::test]
async fn of_a_block_volume() {
    let world = World::new().await;
    world.staged("v", block()).await;
    let device = world.machine.loops()[0].0.clone();
    world.machine.write_device(&device, 8 << 20, b"bytes").unwrap();
    world.snapshot("s", "v").await.unwrap();
    world.make("r", block(), snapshot_source("s")).await.unwrap();
    let image = world.host.disk.read(&world.image("r")).await.unwrap();
    assert_eq!(&image[8 << 20..][..5], b"bytes");
    world.make("f", mount(), snapshot_source("s")).await.unwrap();
    world.attach("f", mount()).await.unwrap();
    assert_eq!(code(&world.stage("f", mount()).await), Code::FailedPrecondition, "no filesystem in it");
    assert_eq!(world.host.disk.read(&world.image("f")).await.unwrap(), image);
}

#[tokio::test]
async fn of_an_empty_volume() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.snapshot("s", "v").await.unwrap();
    let xfs = mount_as("xfs", Mode::SingleNodeWriter);
    let request =
        Request { volume_content_source: snapshot_source("s"), capacity_range: None, ..create("r", xfs) };
    world.controller().create_volume(request).await.expect("nothing is no filesystem yet");
    world.make("c", mount(), volume_source("v")).await.unwrap();
    world.use_it("c").await;
    world.write("c", "formatted").await;
}

/// Many volumes may be made from one snapshot at a time, which cannot be deleted meanwhile.
#[tokio::test(start_paused = true)]
async fn a_snapshot_is_shared() {
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.snapshot("s", "v").await.unwrap();
    // Directory, record, copy.
    let world = world.restart_with(Fault::Stall(3)).await;
    let meanwhile = async {
        while !world.exists(&world.record_path("a")).await {
            tokio::task::yield_now().await;
        }
        world.make("b", mount(), snapshot_source("s")).await.expect("shared");
        assert_eq!(code(&world.delete_snapshot("s").await), Code::Aborted);
        assert_eq!(code(&world.make("a", mount(), snapshot_source("s")).await), Code::Aborted);
        world.faults.resume.notify_one();
    };
    let (made, ()) = tokio::join!(world.make("a", mount(), snapshot_source("s")), meanwhile);
    made.unwrap();
    world.delete_snapshot("s").await.unwrap();
}

/// A full pool leaves nothing of a copy, and its source goes on.
#[tokio::test]
async fn a_full_pool_is_an_exhausted_resource() {
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.snapshot("s", "v").await.unwrap();
    for source in [snapshot_source("s"), volume_source("v")] {
        world.machine.fail_next("copy", 28);
        assert_eq!(code(&world.make("r", mount(), source.clone()).await), Code::ResourceExhausted);
        assert!(!world.exists(world.image("r").parent().unwrap()).await);
        assert_eq!(world.machine.frozen(), Vec::<std::path::PathBuf>::new());
        world.make("r", mount(), source).await.expect("room again");
        world.delete("r").await.unwrap();
    }
}
