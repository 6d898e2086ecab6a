//! What volumes start from: snapshots.

use std::sync::Arc;

use bowline_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use bowline_api::{Meta, ObjectKey, keys};
use bowline_machinery::Step;
use bowline_proto::csi::v1::volume_content_source::Type;
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::decide::source::restored_from;
use super::super::model::{Action, Claim, Observed, Source, SourceSnapshot, Why};
use super::DRIVER;
use super::claims::{creation, decision, seen};

fn snapshot() -> Value {
    json!({
        "metadata": {
            "name": "snap", "namespace": "default", "uid": "u-snap",
            "finalizers": [keys::RESTORE_PROTECTION],
        },
        "spec": {"source": {"persistentVolumeClaimName": "data"}},
        "status": {"boundVolumeSnapshotContentName": "content", "readyToUse": true, "restoreSize": "1Gi"},
    })
}

fn content() -> Value {
    json!({
        "metadata": {"name": "content"},
        "spec": {
            "volumeSnapshotRef": {"name": "snap", "namespace": "default", "uid": "u-snap"},
            "driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": "v"},
        },
        "status": {"snapshotHandle": "s-1"},
    })
}

fn restoring(snapshot: Option<Value>, content: Option<Value>) -> Claim {
    let read = |value: Value| Arc::new(serde_json::from_value::<VolumeSnapshot>(value).unwrap());
    let content =
        content.map(|value| Arc::new(serde_json::from_value::<VolumeSnapshotContent>(value).unwrap()));
    let source = Source::Snapshot { snapshot: snapshot.map(read), content, may_protect: true };
    let of = TypedLocalObjectReference {
        kind: "VolumeSnapshot".into(),
        name: "snap".into(),
        api_group: Some("snapshot.storage.k8s.io".into()),
    };
    Claim { source, ..seen().claim(|claim| claim.spec.as_mut().unwrap().data_source = Some(of)) }
}

/// Snapshot and content, with these fields set.
fn with(of_snapshot: &[(&str, Value)], of_content: &[(&str, Value)]) -> Claim {
    let set = |mut object: Value, fields: &[(&str, Value)]| {
        for (pointer, value) in fields {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        object
    };
    restoring(Some(set(snapshot(), of_snapshot)), Some(set(content(), of_content)))
}

fn failure(seen: &Claim) -> String {
    match decision(seen) {
        Step::Fail(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restore_names_the_handle_of_its_snapshot() {
    let content = creation(&with(&[], &[])).unwrap().request.volume_content_source.unwrap();
    assert!(matches!(content.r#type, Some(Type::Snapshot(source)) if source.snapshot_id == "s-1"));
    assert_eq!(restored_from(&with(&[], &[]).object), Some(ObjectKey::new("default", "snap")));
}

#[test]
fn the_snapshot_is_protected_before_the_call_is_stored() {
    let bare = |may_protect: bool| {
        let mut seen = with(&[("/metadata/finalizers", json!([]))], &[]);
        if let Source::Snapshot { may_protect: may, .. } = &mut seen.source {
            *may = may_protect;
        }
        decision(&seen)
    };
    assert_eq!(bare(true), Step::Do(Action::ProtectSource));
    assert!(matches!(bare(false), Step::Do(Action::Store(_))), "without the right it is done without");
}

#[test]
fn edge_2_15_12_a_snapshot_under_deletion_is_only_restored_if_that_had_begun() {
    let deleted = ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert!(creation(&with(std::slice::from_ref(&deleted), &[])).is_some(), "our finalizer is on it");
    let other = ("/metadata/finalizers", json!(["other"]));
    assert!(failure(&with(&[deleted, other], &[])).ends_with("snapshot snap is being deleted"));
}

#[test]
fn snapshots_that_cannot_be_restored() {
    let spec = |field: &'static str, value: Value| with(&[], &[(field, value)]);
    let status = |field: &'static str, value: Value| with(&[(field, value)], &[]);
    let table = [
        ("missing", restoring(None, None), "error getting snapshot snap from api server"),
        (
            "not bound",
            status("/status/boundVolumeSnapshotContentName", Value::Null),
            "snapshot snap not bound",
        ),
        ("no status", status("/status", Value::Null), "snapshot snap not bound"),
        (
            "no content",
            restoring(Some(snapshot()), None),
            "error getting snapshotcontent content for snapshot snap",
        ),
        (
            "another snapshot's",
            spec("/spec/volumeSnapshotRef/uid", json!("u-other")),
            "snapshotcontent content for snapshot snap is bound to a different snapshot",
        ),
        (
            "another driver's",
            spec("/spec/driver", json!("other.example")),
            "snapshotcontent content for snapshot snap is not handled by CSI driver of StorageClass fast",
        ),
        ("not ready", status("/status/readyToUse", json!(false)), "snapshot snap is not Ready"),
        ("no handle", spec("/status/snapshotHandle", Value::Null), "snapshot handle snap is not available"),
        (
            "larger",
            status("/status/restoreSize", json!("2Gi")),
            "requested volume size 1073741824 is less than the size 2147483648 for the source snapshot snap",
        ),
    ];
    for (name, seen, text) in table {
        let why = failure(&seen);
        let prefix = "error getting handle for DataSource Type VolumeSnapshot by Name snap: ";
        assert!(why.starts_with(prefix) && why.contains(text), "{name}: {why}");
    }
    let cannot = with(&[], &[]).settings(|s| s.restores = false);
    assert_eq!(
        failure(&cannot),
        "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported"
    );
}

#[test]
fn the_mode_changes_only_where_the_content_allows_it() {
    let block = ("/spec/sourceVolumeMode", json!("Block"));
    let asked =
        |claim: Claim| claim.claim(|c| c.spec.as_mut().unwrap().volume_mode = Some("Filesystem".into()));
    let allowed = |value: &str| {
        let annotations = json!({keys::SNAPSHOT_ALLOW_MODE_CHANGE: value});
        asked(with(&[], &[block.clone(), ("/metadata/annotations", annotations)]))
    };
    assert!(
        failure(&asked(with(&[], std::slice::from_ref(&block))))
            .contains("annotation is not present on snapshotcontent content")
    );
    assert!(failure(&allowed("false")).contains("is set to false"));
    assert!(failure(&allowed("maybe")).contains("failed to convert"));
    assert!(creation(&allowed("true")).is_some());
    let unsaid =
        with(&[], std::slice::from_ref(&block)).claim(|c| c.spec.as_mut().unwrap().volume_mode = None);
    assert!(creation(&unsaid).is_some(), "upstream compares only what both say");
    let off = asked(with(&[], &[block])).settings(|s| s.prevent_mode_conversion = false);
    assert!(creation(&off).is_some());
}

#[test]
fn a_snapshot_is_released_when_nothing_is_restored_from_it() {
    let released = |change: fn(&mut SourceSnapshot)| {
        let object = Arc::new(serde_json::from_value(snapshot()).unwrap());
        let mut seen = SourceSnapshot { object, foreign: false, restore: None, intents_read: true };
        change(&mut seen);
        decide(&Observed::Snapshot(Box::new(seen)))
    };
    assert_eq!(released(|_| {}), Step::Do(Action::ReleaseSnapshot), "also if it lives");
    assert_eq!(released(|s| s.restore = Some("copy".into())), Step::Wait(Why::Restoring("copy".into())));
    assert_eq!(released(|s| s.intents_read = false), Step::Wait(Why::IntentsUnread));
    assert_eq!(released(|s| s.foreign = true), Step::Done);
    let bare =
        |s: &mut SourceSnapshot| Arc::make_mut(&mut s.object).remove_finalizer(keys::RESTORE_PROTECTION);
    assert_eq!(released(bare), Step::Done);
    let left = || vec![ObjectKey::new("default", "snap")];
    let sweep = |left, handed_on| decide(&Observed::Snapshots { left, handed_on });
    assert_eq!(sweep(left(), false), Step::Do(Action::HandOnSnapshots));
    assert_eq!((sweep(left(), true), sweep(vec![], false)), (Step::Done, Step::Done));
}
