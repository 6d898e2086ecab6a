//! CreateSnapshot, DeleteSnapshot, ListSnapshots, GetSnapshot.

use std::path::Path;

use bowline_proto::csi::v1 as csi;
use tonic::{Code, Status};

use super::world::{Answer, MIB, NODE, World, block, code, config, mount, target};
use crate::doors::Fault;
use crate::local::{Dialect, LocalConfig, TOPOLOGY_KEY};

pub fn cut(name: &str, volume: &str) -> csi::CreateSnapshotRequest {
    csi::CreateSnapshotRequest { name: name.into(), source_volume_id: volume.into(), ..Default::default() }
}

impl World {
    pub async fn snapshot(&self, name: &str, volume: &str) -> Result<csi::Snapshot, Status> {
        let answer = self.controller().create_snapshot(cut(name, volume)).await?;
        Ok(answer.into_inner().snapshot.unwrap())
    }

    pub async fn delete_snapshot(&self, id: &str) -> Answer {
        let request = csi::DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        self.controller().delete_snapshot(request).await.map(drop)
    }

    pub async fn get_snapshot(&self, id: &str) -> Result<csi::Snapshot, Status> {
        let request = csi::GetSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        Ok(self.controller().get_snapshot(request).await?.into_inner().snapshot.unwrap())
    }

    pub async fn list(
        &self,
        change: impl FnOnce(&mut csi::ListSnapshotsRequest),
    ) -> Result<(Vec<String>, String), Status> {
        let mut request = csi::ListSnapshotsRequest::default();
        change(&mut request);
        let page = self.controller().list_snapshots(request).await?.into_inner();
        let id = |entry: csi::list_snapshots_response::Entry| entry.snapshot.unwrap().snapshot_id;
        Ok((page.entries.into_iter().map(id).collect(), page.next_token))
    }

    /// Writes a file as a workload does.
    pub async fn write(&self, name: &str, text: &str) {
        let path = target(name).join("file");
        self.host.disk.write_atomic(&path, text.as_bytes(), 0o600).await.unwrap();
    }

    /// A filesystem volume that a workload has and has written to.
    pub async fn in_use(&self, id: &str, text: &str) {
        self.staged(id, mount()).await;
        self.publish(id, id, mount()).await.unwrap();
        self.write(id, text).await;
    }

    pub async fn take_down(&self, id: &str) {
        self.unpublish(id, id).await.unwrap();
        self.unstage(id).await.unwrap();
        self.detach(id).await.unwrap();
    }
}

#[tokio::test]
async fn answers_to_a_first_request() {
    type Request = csi::CreateSnapshotRequest;
    let table: [(&str, fn(&mut Request), Code); 13] = [
        ("as usual", |_| {}, Code::Ok),
        ("no name", |r| r.name.clear(), Code::InvalidArgument),
        ("no source", |r| r.source_volume_id.clear(), Code::InvalidArgument),
        ("128 bytes of name", |r| r.name = "x".repeat(128), Code::Ok),
        ("129 bytes of name", |r| r.name = "x".repeat(129), Code::InvalidArgument),
        ("control character", |r| r.name = "a\u{1}".into(), Code::InvalidArgument),
        ("a name that is no path", |r| r.name = "../../etc".into(), Code::Ok),
        ("unknown source", |r| r.source_volume_id = "x".into(), Code::NotFound),
        ("impossible source", |r| r.source_volume_id = "../v".into(), Code::NotFound),
        ("unknown parameter", |r| _ = r.parameters.insert("a".into(), "b".into()), Code::InvalidArgument),
        (
            "unknown parameter of an unknown source",
            |r| {
                r.parameters.insert("a".into(), "b".into());
                r.source_volume_id = "../v".into();
            },
            Code::InvalidArgument,
        ),
        (
            "remark",
            |r| _ = r.parameters.insert("csi.storage.k8s.io/volumesnapshot/name".into(), "a".into()),
            Code::Ok,
        ),
        ("secret", |r| _ = r.secrets.insert("key".into(), "s3cret".into()), Code::Ok),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        world.create("v").await.unwrap();
        let mut request = cut("s", "v");
        change(&mut request);
        let answer = world.controller().create_snapshot(request.clone()).await;
        assert_eq!(code(&answer), expected, "{name}: {answer:?}");
        match answer {
            Ok(answer) => {
                let snapshot = answer.into_inner().snapshot.unwrap();
                world.delete("v").await.expect("snapshots need no volume");
                let again = world.controller().create_snapshot(request).await.unwrap().into_inner();
                assert_eq!(again.snapshot.unwrap(), snapshot, "{name}: the same, its volume gone");
                world.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
            }
            Err(_) => world.delete("v").await.unwrap(),
        }
        world.assert_clean(name).await;
    }
}

#[tokio::test]
async fn a_snapshot_says_what_it_is() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let snapshot = world.snapshot("s", "v").await.unwrap();
    assert_eq!(snapshot.snapshot_id, "s");
    assert_eq!(snapshot.source_volume_id, "v");
    assert_eq!(snapshot.size_bytes, 64 * MIB);
    assert_eq!(snapshot.group_snapshot_id, "");
    assert!(snapshot.ready_to_use);
    assert!(snapshot.creation_time.unwrap().seconds >= 1_767_225_600);
    assert_eq!(world.get_snapshot("s").await.unwrap(), snapshot);

    world.create("w").await.unwrap();
    assert_eq!(code(&world.snapshot("s", "w").await), Code::AlreadyExists, "another source");
    for (id, expected) in [("", Code::InvalidArgument), ("x", Code::NotFound), ("../s", Code::NotFound)] {
        assert_eq!(code(&world.get_snapshot(id).await), expected, "{id}");
    }
}

#[tokio::test]
async fn deleting() {
    let world = World::new().await;
    for id in ["fake", "../../etc", "a/b", "ä", &"x".repeat(300)] {
        assert_eq!(code(&world.delete_snapshot(id).await), Code::Ok, "{id}");
    }
    assert_eq!(code(&world.delete_snapshot("").await), Code::InvalidArgument);
    world.create("v").await.unwrap();
    for _ in 0..2 {
        world.snapshot("s", "v").await.unwrap();
        world.delete_snapshot("s").await.unwrap();
        world.delete_snapshot("s").await.unwrap();
        assert_eq!(code(&world.get_snapshot("s").await), Code::NotFound);
    }
    // The last step fails once; the repeat finds no record and still has to finish.
    world.snapshot("s", "v").await.unwrap();
    world.machine.fail_next("remove_dir", 5);
    assert_eq!(code(&world.delete_snapshot("s").await), Code::Internal);
    world.delete_snapshot("s").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn a_half_deleted_snapshot_is_gone() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.snapshot("s", "v").await.unwrap();
    world.machine.fail_next("remove_file", 5);
    assert_eq!(code(&world.delete_snapshot("s").await), Code::Internal);
    assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new());
    assert_eq!(code(&world.get_snapshot("s").await), Code::NotFound);
    assert_eq!(code(&world.snapshot("s", "v").await), Code::Aborted, "until it is gone");
    let world = world.restart().await;
    assert!(!world.exists(world.snapshot_image("s").parent().unwrap()).await, "finished at the start");
    world.snapshot("s", "v").await.unwrap();
}

#[tokio::test]
async fn pages_and_filters() {
    let world = World::new().await;
    for volume in ["v", "w"] {
        world.create(volume).await.unwrap();
    }
    for (name, volume) in [("a", "v"), ("b", "w"), ("c", "v"), ("d", "v"), ("e", "w")] {
        world.snapshot(name, volume).await.unwrap();
    }
    let all = world.list(|_| {}).await.unwrap();
    assert_eq!(all, (["a", "b", "c", "d", "e"].map(String::from).into(), String::new()));
    let none = (Vec::new(), String::new());
    assert_eq!(world.list(|r| r.snapshot_id = "c".into()).await.unwrap().0, ["c"]);
    assert_eq!(world.list(|r| r.snapshot_id = "non-existing".into()).await.unwrap(), none);
    assert_eq!(world.list(|r| r.snapshot_id = "../a".into()).await.unwrap(), none);
    assert_eq!(world.list(|r| r.source_volume_id = "v".into()).await.unwrap().0, ["a", "c", "d"]);
    assert_eq!(world.list(|r| r.source_volume_id = "x".into()).await.unwrap(), none);
    let other = |r: &mut csi::ListSnapshotsRequest| {
        r.source_volume_id = "w".into();
        r.snapshot_id = "a".into();
    };
    assert_eq!(world.list(other).await.unwrap(), none, "both filters count");

    let (first, token) = world.list(|r| r.max_entries = 2).await.unwrap();
    assert_eq!(first, ["a", "b"]);
    world.delete_snapshot("b").await.unwrap();
    world.snapshot("bb", "v").await.unwrap();
    let (rest, end) = world.list(|r| r.starting_token = token).await.unwrap();
    assert_eq!((rest, end.as_str()), (["bb", "c", "d", "e"].map(String::from).into(), ""));
    let of_v = world.list(|r| {
        r.max_entries = 3;
        r.source_volume_id = "v".into();
    });
    let (first, token) = of_v.await.unwrap();
    assert_eq!(first, ["a", "bb", "c"]);
    let (rest, _) =
        world.list(|r| (r.starting_token, r.source_volume_id) = (token, "v".into())).await.unwrap();
    assert_eq!(rest, ["d"]);
    assert_eq!(code(&world.list(|r| r.starting_token = "invalid-token".into()).await), Code::Aborted);
    assert_eq!(code(&world.list(|r| r.max_entries = -1).await), Code::InvalidArgument);
}

/// A full pool leaves nothing, and the same call succeeds when there is room.
#[tokio::test]
async fn a_full_pool_is_an_exhausted_resource() {
    let world = World::new().await;
    world.in_use("v", "data").await;
    for operation in ["create_dir_all", "write_atomic", "copy"] {
        world.machine.fail_next(operation, 28);
        assert_eq!(code(&world.snapshot("s", "v").await), Code::ResourceExhausted, "{operation}");
        assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new());
        assert!(!world.exists(&world.snapshot_image("s")).await, "{operation}");
        assert_eq!(world.machine.frozen(), Vec::<std::path::PathBuf>::new(), "{operation}");
    }
    world.write("v", "not hanging").await;
    world.snapshot("s", "v").await.expect("room again");
}

/// Removing is how room is made.
#[tokio::test]
async fn a_full_pool_can_be_emptied() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.snapshot("s", "v").await.unwrap();
    let made = world.group("g", &["v"]).await.unwrap();
    world.machine.fail_next("write_atomic", 28);
    world.delete_snapshot("s").await.unwrap();
    world.machine.fail_next("write_atomic", 28);
    world.delete_group("g", &super::groups::members(&made)).await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("emptied").await;
}

#[tokio::test]
async fn bytes_without_a_record_are_not_replaced() {
    let world = World::new().await;
    world.create_block("v").await.unwrap();
    let image = world.snapshot_image("s");
    world.host.disk.create_dir_all(image.parent().unwrap(), 0o700).await.unwrap();
    world.host.disk.write_atomic(&image, b"somebody's", 0o600).await.unwrap();
    assert_eq!(code(&world.snapshot("s", "v").await), Code::FailedPrecondition);
    assert_eq!(world.host.disk.read(&image).await.unwrap(), b"somebody's");
}

/// Both the snapshot and its volume are held while it is cut.
#[tokio::test(start_paused = true)]
async fn one_operation_at_a_time() {
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.create("w").await.unwrap();
    // Directory, record, freeze, and now the copy.
    let world = world.restart_with(Fault::Stall(4)).await;
    let first = world.snapshot("s", "v");
    let meanwhile = async {
        while world.machine.frozen().is_empty() {
            tokio::task::yield_now().await;
        }
        let codes = [
            code(&world.snapshot("s", "v").await),
            code(&world.snapshot("s", "w").await),
            code(&world.snapshot("t", "v").await),
            code(&world.delete_snapshot("s").await),
            code(&world.unpublish("v", "v").await),
            code(&world.delete("v").await),
        ];
        assert_eq!(codes, [Code::Aborted; 6]);
        assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new(), "not cut yet");
        assert_eq!(code(&world.get_snapshot("s").await), Code::NotFound, "not cut yet");
        world.faults.resume.notify_one();
    };
    let (answer, ()) = tokio::join!(first, meanwhile);
    answer.unwrap();
}

/// A volume that never was written to has an empty snapshot, whatever half a mkfs left on it.
#[tokio::test]
async fn of_an_empty_volume() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.attach("v", mount()).await.unwrap();
    world.machine.fail_next("mount", 5);
    world.stage("v", mount()).await.unwrap_err();
    let path = world.record_path("v");
    let text = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
    let half_done = text.replace("\"formatted\"", "\"formatting\"");
    assert_ne!(text, half_done);
    world.host.disk.write_atomic(&path, half_done.as_bytes(), 0o600).await.unwrap();
    let world = world.restart().await;
    world.snapshot("s", "v").await.unwrap();
    assert_eq!(world.host.disk.allocated(&world.snapshot_image("s")).await.unwrap(), 0);
    assert_eq!(world.host.disk.length(&world.snapshot_image("s")).await.unwrap(), 64 << 20);
}

#[tokio::test]
async fn no_secret_is_written_down() {
    let world = World::new().await;
    world.staged("v", block()).await;
    let mut request = cut("s", "v");
    request.secrets.insert("key".into(), "s3cret".into());
    world.controller().create_snapshot(request).await.unwrap();
    for (path, bytes) in world.machine.files() {
        assert!(!String::from_utf8_lossy(&bytes).contains("s3cret"), "{}", path.display());
    }
    assert!(world.exists(Path::new(&world.snapshot_image("s"))).await);
}

#[tokio::test]
async fn a_snapshot_says_where_it_can_be_reached() {
    let place = |node: &str| csi::Topology { segments: [(TOPOLOGY_KEY.to_owned(), node.to_owned())].into() };
    let within = |node: &str| {
        let requisite = vec![place(node)];
        let needs = csi::TopologyRequirement { requisite, preferred: Vec::new() };
        csi::CreateSnapshotRequest { accessibility_requirements: Some(needs), ..cut("s", "v") }
    };
    let world = World::with(LocalConfig { dialect: Dialect::V1_13, ..config() }).await;
    world.create("v").await.unwrap();
    let elsewhere = world.controller().create_snapshot(within("elsewhere")).await;
    assert_eq!(code(&elsewhere), Code::ResourceExhausted);
    let made = world.controller().create_snapshot(within(NODE)).await.unwrap().into_inner();
    assert_eq!(made.snapshot.unwrap().accessible_topology, [place(NODE)]);
    assert_eq!(world.get_snapshot("s").await.unwrap().accessible_topology, [place(NODE)]);

    let older = World::new().await;
    older.create("v").await.unwrap();
    assert_eq!(older.snapshot("s", "v").await.unwrap().accessible_topology, []);
}
