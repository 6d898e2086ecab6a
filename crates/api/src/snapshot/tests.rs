use k8s_openapi::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn round_trip<K: Serialize + DeserializeOwned>(object: Value) {
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
}

/// Goal: what a role reads and writes back is the object that the API server has, with the kind and version it expects.
#[test]
fn objects_survive_reading_and_writing() {
    round_trip::<VolumeSnapshot>(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "s", "namespace": "ns", "uid": "u"},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "local"},
        "status": {
            "boundVolumeSnapshotContentName": "snapcontent-u", "creationTime": "2026-01-02T03:04:05Z",
            "readyToUse": true, "restoreSize": "1Gi", "volumeGroupSnapshotName": "g",
            "error": {"time": "2026-01-02T03:04:05Z", "message": "no room"},
        },
    }));
    round_trip::<VolumeSnapshotContent>(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "snapcontent-u"},
        "spec": {
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "name": "s", "namespace": "ns", "uid": "u"},
            "deletionPolicy": "Delete", "driver": "d", "volumeSnapshotClassName": "local",
            "source": {"volumeHandle": "v"}, "sourceVolumeMode": "Filesystem",
        },
        "status": {
            "snapshotHandle": "h", "creationTime": 1_700_000_000_123_456_789_i64, "restoreSize": 1024,
            "readyToUse": false, "volumeGroupSnapshotHandle": "g",
        },
    }));
    round_trip::<VolumeSnapshotClass>(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "local"}, "driver": "d", "deletionPolicy": "Retain", "parameters": {"a": "b"},
    }));
    round_trip::<VolumeGroupSnapshot>(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"source": {"selector": {"matchLabels": {"app": "db"}}}, "volumeGroupSnapshotClassName": "c"},
        "status": {"boundVolumeGroupSnapshotContentName": "groupsnapcontent-u", "readyToUse": true},
    }));
    round_trip::<VolumeGroupSnapshotContent>(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "c"},
        "spec": {
            "volumeGroupSnapshotRef": {"name": "g", "namespace": "ns"}, "deletionPolicy": "Delete", "driver": "d",
            "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "h", "volumeSnapshotHandles": ["a"]}},
        },
        "status": {
            "volumeGroupSnapshotHandle": "h", "readyToUse": true,
            "volumeSnapshotInfoList": [{
                "volumeHandle": "v", "snapshotHandle": "a", "creationTime": 5, "readyToUse": true, "restoreSize": 6,
            }],
        },
    }));
    round_trip::<VolumeGroupSnapshotClass>(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
        "metadata": {"name": "c"}, "driver": "d", "deletionPolicy": "Delete",
    }));
}

#[test]
fn kinds_are_asked_for_where_upstream_serves_them() {
    assert_eq!(VolumeSnapshot::API_VERSION, "snapshot.storage.k8s.io/v1");
    assert_eq!(VolumeSnapshotContent::URL_PATH_SEGMENT, "volumesnapshotcontents");
    assert_eq!(
        (VolumeGroupSnapshot::GROUP, VolumeGroupSnapshot::VERSION),
        ("groupsnapshot.storage.k8s.io", "v1")
    );
}
