//! Snapshots and groups whose records were lost.

use std::path::{Path, PathBuf};

use bowline_host::Host;
use bowline_host::fake;

use crate::capability::FsType;
use crate::id::{GroupId, SnapshotId, VolumeId};
use crate::local::pool::Pool;
use crate::local::record::{Access, Contents, GroupRecord, Phase, SnapshotRecord};
use crate::shelf::Record;

const POOL: &str = "/var/lib/pool";

fn snapshot(volume: &str, group: Option<&str>) -> SnapshotRecord {
    SnapshotRecord {
        version: SnapshotRecord::VERSION,
        name: format!("of {volume}"),
        phase: Phase::Ready,
        volume: VolumeId::for_name(volume),
        size: 1 << 20,
        created: 1_767_225_600,
        parameters: [("key".to_owned(), "value".to_owned())].into(),
        access: Access { block: false, filesystem: Some(FsType::Ext4) },
        contents: Contents::Formatted(FsType::Ext4),
        topology: [("zone".to_owned(), "a".to_owned())].into(),
        group: group.map(GroupId::for_name),
    }
}

fn record_path(kind: &str, id: &str) -> PathBuf {
    Path::new(POOL).join(kind).join(id).join("record.json")
}

/// A pool with three snapshots, two of them of one group.
async fn pool(host: &Host) -> (Pool, GroupRecord) {
    let pool = Pool::open(host.clone(), Path::new(POOL)).await.unwrap();
    for (id, volume, group) in [("s1", "v2", Some("g")), ("s2", "v1", Some("g")), ("s3", "v1", None)] {
        let id = SnapshotId::for_name(id);
        pool.snapshots.make_dir(&id).await.unwrap();
        host.disk.create_sparse(&pool.snapshot_image(&id), 1 << 20).await.unwrap();
        pool.snapshots.put(&id, snapshot(volume, group)).await.unwrap();
    }
    let group = GroupRecord {
        version: GroupRecord::VERSION,
        name: "g".into(),
        phase: Phase::Ready,
        volumes: ["v1", "v2"].map(VolumeId::for_name).into(),
        snapshots: ["s2", "s1"].map(SnapshotId::for_name).into(),
        parameters: snapshot("v1", None).parameters,
        created: snapshot("v1", None).created,
    };
    let id = GroupId::for_name("g");
    pool.groups.make_dir(&id).await.unwrap();
    pool.groups.put(&id, group.clone()).await.unwrap();
    (pool, group)
}

/// Goal: everything that snapshots and groups were is known again from the images alone.
#[tokio::test]
async fn from_images_alone() {
    let (host, _machine) = fake::host(1);
    let (_, group) = pool(&host).await;
    for (kind, id) in [("snapshots", "s1"), ("snapshots", "s2"), ("snapshots", "s3"), ("groups", "g")] {
        host.disk.remove_file(&record_path(kind, id)).await.unwrap();
    }
    // Once from the labels, and once from what that wrote.
    for _ in 0..2 {
        let pool = Pool::open(host.clone(), Path::new(POOL)).await.unwrap();
        for (id, volume, group) in [("s1", "v2", Some("g")), ("s2", "v1", Some("g")), ("s3", "v1", None)] {
            let found = pool.snapshots.get(&SnapshotId::for_name(id)).expect(id);
            assert_eq!(*found, snapshot(volume, group), "{id}");
        }
        assert_eq!(*pool.groups.get(&GroupId::for_name("g")).expect("group"), group);
        assert!(pool.quarantined().is_empty());
    }
}

#[tokio::test]
async fn a_spoilt_group_record_is_made_again() {
    let (host, _machine) = fake::host(1);
    let (_, group) = pool(&host).await;
    host.disk.write_atomic(&record_path("groups", "g"), b"{", 0o600).await.unwrap();
    let pool = Pool::open(host.clone(), Path::new(POOL)).await.unwrap();
    assert_eq!(*pool.groups.get(&GroupId::for_name("g")).expect("group"), group);
    assert!(pool.quarantined().is_empty());
}

/// A group with a member too few would be a wrong answer.
#[tokio::test]
async fn no_group_without_all_its_members() {
    let (host, _machine) = fake::host(1);
    let (first, _) = pool(&host).await;
    let image = first.snapshot_image(&SnapshotId::for_name("s2"));
    host.disk.remove_file(&image).await.unwrap();
    host.disk.create_sparse(&image, 1 << 20).await.unwrap();
    host.disk.remove_file(&record_path("snapshots", "s2")).await.unwrap();
    host.disk.write_atomic(&record_path("groups", "g"), b"{", 0o600).await.unwrap();
    let pool = Pool::open(host.clone(), Path::new(POOL)).await.unwrap();
    assert!(pool.groups.get(&GroupId::for_name("g")).is_none());
    let quarantined: Vec<_> = pool.quarantined().into_keys().map(|key| key.to_string()).collect();
    assert_eq!(quarantined, ["group snapshot `g`", "snapshot `s2`"]);
}

/// A record of a newer version says more than its members do.
#[tokio::test]
async fn a_group_record_from_the_future_is_left_alone() {
    let (host, _machine) = fake::host(1);
    pool(&host).await;
    let path = record_path("groups", "g");
    let text = String::from_utf8(host.disk.read(&path).await.unwrap()).unwrap();
    let newer = text.replace("\"version\": 1", "\"version\": 2");
    assert_ne!(text, newer);
    host.disk.write_atomic(&path, newer.as_bytes(), 0o600).await.unwrap();
    let pool = Pool::open(host.clone(), Path::new(POOL)).await.unwrap();
    assert!(pool.groups.get(&GroupId::for_name("g")).is_none());
    assert_eq!(host.disk.read(&path).await.unwrap(), newer.as_bytes());
}
