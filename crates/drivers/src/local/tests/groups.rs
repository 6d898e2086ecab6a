//! The GroupController service: all members of one moment, or none.

use std::path::PathBuf;

use bowline_proto::csi::v1 as csi;
use tonic::{Code, Status};

use super::restores::snapshot_source;
use super::world::{Answer, World, block, code, mount};
use crate::doors::Fault;

impl World {
    pub async fn group(&self, name: &str, volumes: &[&str]) -> Result<csi::VolumeGroupSnapshot, Status> {
        let request = group(name, volumes);
        let answer = self.group_controller().create_volume_group_snapshot(request).await?;
        Ok(answer.into_inner().group_snapshot.unwrap())
    }

    pub async fn get_group(&self, id: &str, ids: &[String]) -> Result<csi::VolumeGroupSnapshot, Status> {
        let request = csi::GetVolumeGroupSnapshotRequest {
            group_snapshot_id: id.into(),
            snapshot_ids: ids.into(),
            ..Default::default()
        };
        let answer = self.group_controller().get_volume_group_snapshot(request).await?;
        Ok(answer.into_inner().group_snapshot.unwrap())
    }

    pub async fn delete_group(&self, id: &str, ids: &[String]) -> Answer {
        let request = csi::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.into(),
            snapshot_ids: ids.into(),
            ..Default::default()
        };
        self.group_controller().delete_volume_group_snapshot(request).await.map(drop)
    }
}

fn group(name: &str, volumes: &[&str]) -> csi::CreateVolumeGroupSnapshotRequest {
    csi::CreateVolumeGroupSnapshotRequest {
        name: name.into(),
        source_volume_ids: volumes.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

pub fn members(group: &csi::VolumeGroupSnapshot) -> Vec<String> {
    group.snapshots.iter().map(|snapshot| snapshot.snapshot_id.clone()).collect()
}

#[tokio::test]
async fn the_service_says_what_it_can() {
    let world = World::new().await;
    let request = csi::GroupControllerGetCapabilitiesRequest {};
    let all = world.group_controller().group_controller_get_capabilities(request).await.unwrap();
    assert_eq!(all.into_inner().capabilities.len(), 1);
}

#[tokio::test]
async fn answers_to_a_first_request() {
    type Request = csi::CreateVolumeGroupSnapshotRequest;
    let table: [(&str, fn(&mut Request), Code); 10] = [
        ("as usual", |_| {}, Code::Ok),
        ("one volume", |r| _ = r.source_volume_ids.pop(), Code::Ok),
        ("no name", |r| r.name.clear(), Code::InvalidArgument),
        ("129 bytes of name", |r| r.name = "x".repeat(129), Code::InvalidArgument),
        ("no volumes", |r| r.source_volume_ids.clear(), Code::InvalidArgument),
        ("an empty one", |r| r.source_volume_ids.push(String::new()), Code::InvalidArgument),
        ("one twice", |r| r.source_volume_ids.push("v".into()), Code::InvalidArgument),
        ("unknown volume", |r| r.source_volume_ids.push("x".into()), Code::NotFound),
        ("impossible volume", |r| r.source_volume_ids.push("../v".into()), Code::NotFound),
        ("parameter", |r| _ = r.parameters.insert("a".into(), "b".into()), Code::InvalidArgument),
    ];
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.create("w").await.unwrap();
    for (name, change, expected) in table {
        let mut request = group("g", &["v", "w"]);
        change(&mut request);
        let answer = world.group_controller().create_volume_group_snapshot(request).await;
        assert_eq!(code(&answer), expected, "{name}");
        if let Ok(made) = answer {
            let made = made.into_inner().group_snapshot.unwrap();
            world.delete_group("g", &members(&made)).await.unwrap();
        }
        assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn a_group_says_what_it_is() {
    let world = World::new().await;
    world.in_use("v", "one").await;
    world.create("w").await.unwrap();
    let made = world.group("g", &["w", "v"]).await.unwrap();
    assert_eq!(made.group_snapshot_id, "g");
    assert!(made.ready_to_use && made.snapshots.iter().all(|member| member.ready_to_use));
    assert!(made.snapshots.iter().all(|member| member.group_snapshot_id == "g"));
    assert!(made.snapshots.iter().all(|member| member.creation_time == made.creation_time));
    let sources: Vec<_> = made.snapshots.iter().map(|member| member.source_volume_id.as_str()).collect();
    assert_eq!(sources, ["v", "w"]);
    let ids = members(&made);
    assert_eq!(world.list(|_| {}).await.unwrap().0.len(), 2);
    assert_eq!(world.get_snapshot(&ids[0]).await.unwrap(), made.snapshots[0]);

    assert_eq!(world.group("g", &["v", "w"]).await.unwrap(), made, "in any order");
    assert_eq!(code(&world.group("g", &["v"]).await), Code::AlreadyExists, "fewer volumes");
    let mut reversed = ids.clone();
    reversed.reverse();
    assert_eq!(world.get_group("g", &reversed).await.unwrap(), made);

    world.make("r", mount(), snapshot_source(&ids[0])).await.expect("members are snapshots");
    world.take_down("v").await;
    world.delete("v").await.unwrap();
    assert_eq!(world.group("g", &["v", "w"]).await.unwrap(), made, "its volume gone");
}

#[tokio::test]
async fn answers_about_a_group() {
    let world = World::new().await;
    for volume in ["v", "w"] {
        world.create(volume).await.unwrap();
    }
    let ids = members(&world.group("g", &["v", "w"]).await.unwrap());
    let extra: Vec<String> = ids.iter().cloned().chain(["x".to_owned()]).collect();
    let table = [
        ("", &ids[..], Code::InvalidArgument, Code::InvalidArgument),
        ("fake-vol-id", &[], Code::NotFound, Code::Ok),
        ("fake-vol-id", &ids, Code::NotFound, Code::Ok),
        ("../g", &[], Code::NotFound, Code::Ok),
        ("g", &[], Code::InvalidArgument, Code::InvalidArgument),
        ("g", &ids[..1], Code::InvalidArgument, Code::InvalidArgument),
        ("g", &extra, Code::InvalidArgument, Code::InvalidArgument),
        ("g", &ids, Code::Ok, Code::Ok),
        ("g", &ids, Code::NotFound, Code::Ok),
    ];
    for (id, named, get, delete) in table {
        assert_eq!(code(&world.get_group(id, named).await), get, "get {id} {named:?}");
        assert_eq!(code(&world.delete_group(id, named).await), delete, "delete {id} {named:?}");
    }
    assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new());
}

#[tokio::test]
async fn a_member_stays_with_its_group() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let ids = members(&world.group("g", &["v"]).await.unwrap());
    let refused = world.delete_snapshot(&ids[0]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("`g`"), "{}", refused.message());
    // A snapshot of its own with the member's id as name.
    assert_eq!(code(&world.snapshot(&ids[0], "v").await), Code::AlreadyExists);
    world.delete_group("g", &ids).await.unwrap();
    world.snapshot(&ids[0], "v").await.unwrap();
    assert_eq!(code(&world.group("g", &["v"]).await), Code::AlreadyExists, "and the other way round");
    assert!(world.get_snapshot(&ids[0]).await.is_ok());
}

/// Every filesystem is frozen before the first is copied, and none is thawed before the last.
#[tokio::test(start_paused = true)]
async fn all_are_frozen_at_once() {
    let world = World::new().await;
    for volume in ["v", "w"] {
        world.in_use(volume, "before").await;
    }
    // Directories and records of group and members, two freezes: the ninth is the first copy.
    let world = world.restart_with(Fault::Stall(9)).await;
    let meanwhile = async {
        while world.machine.frozen().len() < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new(), "not cut yet");
        assert_eq!(code(&world.snapshot("s", "v").await), Code::Aborted);
        assert_eq!(code(&world.group("h", &["w"]).await), Code::Aborted);
        assert_eq!(code(&world.delete_group("g", &[]).await), Code::Aborted);
        world.faults.resume.notify_one();
    };
    let (made, ()) = tokio::join!(world.group("g", &["v", "w"]), meanwhile);
    assert_eq!(made.unwrap().snapshots.len(), 2);
    assert_eq!(world.machine.frozen(), Vec::<PathBuf>::new());
}

/// One of several fails: nothing of the others stays, and nothing stays frozen.
#[tokio::test(start_paused = true)]
async fn all_or_nothing() {
    let cases = [
        ("copy", 28, Code::ResourceExhausted),
        ("freeze", 5, Code::Internal),
        ("create_dir_all", 28, Code::ResourceExhausted),
        ("write_atomic", 28, Code::ResourceExhausted),
    ];
    for (operation, errno, expected) in cases {
        let world = World::new().await;
        for volume in ["v", "w"] {
            world.in_use(volume, "before").await;
        }
        world.machine.fail_next(operation, errno);
        assert_eq!(code(&world.group("g", &["v", "w"]).await), expected, "{operation}");
        assert_eq!(world.machine.frozen(), Vec::<PathBuf>::new(), "{operation}");
        assert_eq!(world.list(|_| {}).await.unwrap().0, Vec::<String>::new(), "{operation}");
        let made = world.group("g", &["v", "w"]).await.unwrap();
        world.delete_group("g", &members(&made)).await.unwrap();
        for volume in ["v", "w"] {
            world.take_down(volume).await;
            world.delete(volume).await.unwrap();
        }
        world.assert_clean(operation).await;
    }
}

/// Devices in use cannot be stopped; together they are of one moment only if nobody wrote to any.
#[tokio::test(start_paused = true)]
async fn a_device_that_is_written_cannot_be_cut_together_with_others() {
    let world = World::new().await;
    world.machine.set_reflinks(true);
    world.in_use("v", "before").await;
    world.staged("b", block()).await;
    world.group("g", &["v", "b"]).await.expect("quiet");
    let device = world.machine.loops()[1].0.clone();
    // Six directories and records, freeze and flush: the ninth is the first copy.
    let world = world.restart_with(Fault::Stall(9)).await;
    let meanwhile = async {
        while world.machine.frozen().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        world.machine.write_device(&device, 0, b"meanwhile").unwrap();
        world.faults.resume.notify_one();
    };
    let (made, ()) = tokio::join!(world.group("h", &["v", "b"]), meanwhile);
    assert_eq!(code(&made), Code::FailedPrecondition);
    assert_eq!(world.machine.frozen(), Vec::<PathBuf>::new());
    world.group("h", &["v", "b"]).await.expect("quiet again");
}
