mod memory;

use std::sync::Arc;

use bowline_api::{VolumeSnapshotClass, VolumeSnapshotContent, keys};
use bowline_machinery::{Change, Step};
use k8s_openapi::api::core::v1::SecretReference;
use serde_json::{Value, json};

use super::act::proves_absence;
use super::decide::{decide, merged, should_delete};
use super::model::{Action, Answer, Content, Report, Settings, Why};
use super::role::only_notes_differ;

fn class(parameters: Value) -> Option<Arc<VolumeSnapshotClass>> {
    let class = json!({"metadata": {"name": "local"}, "driver": "d", "deletionPolicy": "Delete", "parameters": parameters});
    Some(Arc::new(serde_json::from_value(class).unwrap()))
}

/// A content with parts of its metadata, spec and status replaced.
fn content(metadata: Value, spec: Value, status: Value) -> Arc<VolumeSnapshotContent> {
    let mut whole = json!({
        "metadata": {"name": "snapcontent-u", "uid": "cu", "resourceVersion": "3", "finalizers": [keys::SNAPSHOT_CONTENT_BOUND]},
        "spec": {
            "volumeSnapshotRef": {"name": "snap", "namespace": "ns", "uid": "1-2-3"}, "deletionPolicy": "Delete",
            "driver": "d", "volumeSnapshotClassName": "local", "source": {"volumeHandle": "v"},
        },
        "status": status,
    });
    for (part, changes) in [("metadata", metadata), ("spec", spec)] {
        for (key, value) in changes.as_object().into_iter().flatten() {
            whole[part][key] = value.clone();
        }
    }
    Arc::new(serde_json::from_value(whole).unwrap())
}

fn seen(object: Arc<VolumeSnapshotContent>) -> Content {
    let settings =
        Settings { driver: "d".into(), lists: true, prefix: "snapshot".into(), ..Settings::default() };
    Content { settings: Arc::new(settings), class: class(Value::Null), answer: Answer::None, object }
}

fn marks(marks: &[&str], deleted: bool) -> Value {
    let annotations: serde_json::Map<String, Value> =
        marks.iter().map(|mark| ((*mark).to_owned(), json!("yes"))).collect();
    let mut metadata = json!({"annotations": annotations});
    if deleted {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    metadata
}

const CREATED: &str = keys::SNAPSHOT_BEING_CREATED;
const DELETED: &str = keys::SNAPSHOT_BEING_DELETED;

fn report(ready: bool) -> Report {
    Report { handle: "s".into(), creation_time: 5, size: 10, ready, group_handle: None }
}

fn stored(ready: bool) -> Value {
    json!({"snapshotHandle": "s", "creationTime": 5, "restoreSize": 10, "readyToUse": ready})
}

#[test]
fn a_snapshot_is_taken_in_steps() {
    let mut one = seen(content(json!({}), json!({}), Value::Null));
    assert_eq!(decide(&one), Step::Do(Action::MarkBeingCreated));
    one.object = content(marks(&[CREATED], false), json!({}), Value::Null);
    let Step::Do(Action::Create { request, secret: None }) = decide(&one) else { panic!("no call") };
    assert_eq!((request.name.as_str(), request.source_volume_id.as_str()), ("snapshot-1-2-3", "v"));
    one.answer = Answer::Reported(report(false));
    assert!(matches!(decide(&one), Step::Do(Action::SaveStatus(_))));
    one.object = content(marks(&[CREATED], false), json!({}), stored(false));
    assert_eq!(decide(&one), Step::Do(Action::UnmarkBeingCreated));
    one.object = content(json!({}), json!({}), stored(false));
    assert_eq!(decide(&one), Step::Wait(Why::NotReady));
    // Time to ask again: the same call, with the same mark before it.
    one.answer = Answer::None;
    assert_eq!(decide(&one), Step::Do(Action::MarkBeingCreated));
    one.answer = Answer::Reported(report(true));
    assert!(matches!(decide(&one), Step::Do(Action::SaveStatus(_))));
    one.object = content(json!({}), json!({}), stored(true));
    assert_eq!(decide(&one), Step::Done);
    one.object = content(marks(&[CREATED], false), json!({}), stored(true));
    assert_eq!(decide(&one), Step::Do(Action::UnmarkBeingCreated), "left over from a process that died");
}

#[test]
fn flags_shape_the_request() {
    let mut one = seen(content(marks(&[CREATED], false), json!({}), Value::Null));
    one.class = class(
        json!({"fast": "yes", "csi.storage.k8s.io/snapshotter-secret-name": "a", "csi.storage.k8s.io/snapshotter-secret-namespace": "b"}),
    );
    one.settings = Arc::new(Settings {
        prefix: "p".into(),
        uuid_length: Some(2),
        extra_create_metadata: true,
        ..one.settings.as_ref().clone()
    });
    let Step::Do(Action::Create { request, .. }) = decide(&one) else { panic!("no call") };
    assert_eq!(request.name, "p-12");
    let mut parameters: Vec<(String, String)> = request.parameters.into_iter().collect();
    parameters.sort();
    let want = [
        ("csi.storage.k8s.io/volumesnapshot/name", "snap"),
        ("csi.storage.k8s.io/volumesnapshot/namespace", "ns"),
        ("csi.storage.k8s.io/volumesnapshotcontent/name", "snapcontent-u"),
        ("fast", "yes"),
    ];
    assert_eq!(parameters, want.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[test]
fn a_snapshot_cannot_be_taken_without_class_uid_or_known_parameters() {
    let fails = |change: &dyn Fn(&mut Content)| {
        let mut one = seen(content(json!({}), json!({}), Value::Null));
        change(&mut one);
        match decide(&one) {
            Step::Fail(why) => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fails(&|one| one.class = None), Why::ClassMissing("local".into()));
    let none =
        fails(&|one| one.object = content(json!({}), json!({"volumeSnapshotClassName": null}), Value::Null));
    assert_eq!(none, Why::NoClass("snapcontent-u".into()));
    let reference = json!({"volumeSnapshotRef": {"name": "snap", "namespace": "ns"}});
    assert_eq!(fails(&|one| one.object = content(json!({}), reference.clone(), Value::Null)), Why::NoUid);
    assert!(matches!(
        fails(&|one| one.class = class(json!({"csi.storage.k8s.io/x": "y"}))),
        Why::Parameters(_)
    ));
    let half = json!({"annotations": {(keys::SNAPSHOT_DELETION_SECRET_NAME): "only-the-name"}});
    assert!(matches!(
        fails(&|one| one.object = content(half.clone(), json!({}), Value::Null)),
        Why::Secret(_)
    ));
}

#[test]
fn edge_5_10_1_a_deleted_content_is_created_until_the_driver_answers() {
    let mut one = seen(content(marks(&[CREATED, DELETED], true), json!({}), Value::Null));
    assert!(!should_delete(&one.object));
    assert!(matches!(decide(&one), Step::Do(Action::Create { .. })));
    one.answer = Answer::Reported(report(true));
    one.object = content(marks(&[CREATED, DELETED], true), json!({}), stored(true));
    assert_eq!(decide(&one), Step::Do(Action::UnmarkBeingCreated));
    one.object = content(marks(&[DELETED], true), json!({}), stored(true));
    assert!(matches!(decide(&one), Step::Do(Action::Delete { .. })));
}

#[test]
fn edge_5_10_2_a_successor_repeats_what_the_mark_says_may_be_running() {
    for status in [Value::Null, json!({"readyToUse": false, "error": {"message": "timeout"}})] {
        let one = seen(content(marks(&[CREATED], false), json!({}), status));
        assert!(matches!(decide(&one), Step::Do(Action::Create { .. })));
    }
}

#[test]
fn a_refused_snapshot_is_unmarked_and_reported() {
    let mut one = seen(content(marks(&[CREATED], false), json!({}), Value::Null));
    one.answer = Answer::Refused("no room".into());
    assert_eq!(decide(&one), Step::Do(Action::UnmarkBeingCreated));
    one.object = content(json!({}), json!({}), Value::Null);
    assert_eq!(decide(&one), Step::Fail(Why::Refused("no room".into())));
}

/// Goal: after a call without an answer, only what proves that nothing exists ends the wait; anything else keeps the mark.
#[test]
fn which_refusals_of_a_repeat_prove_that_nothing_was_made() {
    use tonic::Code;
    let proofs = [Code::InvalidArgument, Code::NotFound, Code::OutOfRange, Code::Unimplemented];
    let others = [
        Code::Internal,
        Code::PermissionDenied,
        Code::FailedPrecondition,
        Code::Unknown,
        Code::AlreadyExists,
    ];
    assert!(proofs.iter().all(|code| proves_absence(*code as i32)));
    assert!(!others.iter().any(|code| proves_absence(*code as i32)));
}

#[test]
fn a_snapshot_is_deleted_before_its_content_goes() {
    let mut one = seen(content(marks(&[DELETED], true), json!({}), stored(true)));
    assert_eq!(decide(&one), Step::Do(Action::Delete { handle: "s".into(), secret: None }));
    one.answer = Answer::Deleted;
    assert_eq!(decide(&one), Step::Do(Action::ClearStatus));
    one.object = content(marks(&[DELETED], true), json!({}), json!({}));
    assert_eq!(decide(&one), Step::Do(Action::RemoveFinalizer));
    let mut gone = marks(&[DELETED], true);
    gone["finalizers"] = json!(null);
    one.object = content(gone, json!({}), json!({}));
    assert_eq!(decide(&one), Step::Done);
}

#[test]
fn edge_5_10_4_nothing_is_deleted_that_is_retained_or_has_no_handle() {
    let retained = seen(content(marks(&[DELETED], true), json!({"deletionPolicy": "Retain"}), stored(true)));
    assert_eq!(decide(&retained), Step::Do(Action::RemoveFinalizer));
    let never_taken = seen(content(marks(&[DELETED], true), json!({}), Value::Null));
    assert_eq!(decide(&never_taken), Step::Do(Action::RemoveFinalizer));
}

#[test]
fn edge_5_10_14_a_member_of_a_group_is_neither_taken_nor_deleted_alone() {
    let mut status = stored(true);
    status["volumeGroupSnapshotHandle"] = json!("g");
    let one = seen(content(marks(&[DELETED], true), json!({}), status));
    assert_eq!(decide(&one), Step::Do(Action::RemoveFinalizer));
    let member = json!({"annotations": {(keys::GROUP_SNAPSHOT_HANDLE): "g"}});
    let one = seen(content(member.clone(), json!({"volumeSnapshotClassName": null}), Value::Null));
    assert_eq!(decide(&one), Step::Wait(Why::NoHandles));
    let handles = json!({"snapshotHandle": "s", "volumeGroupSnapshotHandle": "g", "readyToUse": false});
    let one = seen(content(member, json!({"volumeSnapshotClassName": null}), handles));
    assert_eq!(decide(&one), Step::Do(Action::List { handle: "s".into(), secret: None }));
}

#[test]
fn edge_5_10_16_a_secret_that_the_content_names_is_used_for_its_deletion() {
    let mut metadata = marks(&[DELETED], true);
    metadata["annotations"][keys::SNAPSHOT_DELETION_SECRET_NAME] = json!("a");
    metadata["annotations"][keys::SNAPSHOT_DELETION_SECRET_NAMESPACE] = json!("b");
    let secret = Some(SecretReference { name: Some("a".into()), namespace: Some("b".into()) });
    let one = seen(content(metadata, json!({}), stored(true)));
    assert_eq!(decide(&one), Step::Do(Action::Delete { handle: "s".into(), secret }));
}

#[test]
fn edge_5_10_17_an_existing_snapshot_that_was_never_bound_can_be_deleted() {
    let spec =
        json!({"source": {"snapshotHandle": "s"}, "volumeSnapshotRef": {"name": "snap", "namespace": "ns"}});
    let one = seen(content(marks(&[], true), spec.clone(), Value::Null));
    assert_eq!(decide(&one), Step::Do(Action::RemoveFinalizer));
    let one = seen(content(marks(&[], true), spec, stored(true)));
    assert!(matches!(decide(&one), Step::Do(Action::Delete { .. })));
    // A bound one belongs to its snapshot until that goes.
    let one = seen(content(marks(&[], true), json!({"source": {"snapshotHandle": "s"}}), stored(true)));
    assert_eq!(decide(&one), Step::Done);
}

#[test]
fn an_existing_snapshot_is_looked_up_if_the_driver_can() {
    let spec = json!({"source": {"snapshotHandle": "s"}, "volumeSnapshotClassName": null});
    let mut one = seen(content(json!({}), spec, Value::Null));
    assert_eq!(decide(&one), Step::Do(Action::List { handle: "s".into(), secret: None }));
    one.settings = Arc::new(Settings { lists: false, ..one.settings.as_ref().clone() });
    assert_eq!(decide(&one), Step::Do(Action::AssumeReady { handle: "s".into() }));
}

#[test]
fn edge_5_10_9_handle_time_and_size_are_written_once() {
    let old =
        serde_json::from_value(json!({"snapshotHandle": "a", "creationTime": 1, "restoreSize": 0})).unwrap();
    let new = merged(Some(&old), &report(false));
    assert_eq!(
        (new.snapshot_handle.as_deref(), new.creation_time, new.restore_size),
        (Some("a"), Some(1), Some(10))
    );
    let unknown = Report { size: 0, ..report(false) };
    assert_eq!(merged(None, &unknown).restore_size, None);
}

#[test]
fn turning_ready_ends_an_error() {
    let old = serde_json::from_value(json!({"readyToUse": false, "error": {"message": "slow"}})).unwrap();
    assert!(merged(Some(&old), &report(false)).error.is_some());
    assert!(merged(Some(&old), &report(true)).error.is_none());
}

#[test]
fn edge_5_10_3_our_own_notes_wake_nothing_but_readiness_does() {
    let change = |old: Arc<VolumeSnapshotContent>, new: Arc<VolumeSnapshotContent>| {
        only_notes_differ(&Change { old: Some(old), new: Some(new) })
    };
    let plain = || content(json!({}), json!({}), Value::Null);
    let failed = json!({"readyToUse": false, "error": {"message": "x"}});
    assert!(change(plain(), content(marks(&[CREATED], false), json!({}), Value::Null)));
    assert!(change(plain(), content(json!({}), json!({}), failed)));
    assert!(change(plain(), content(json!({"finalizers": null}), json!({}), Value::Null)));
    assert!(!change(plain(), content(json!({}), json!({}), stored(true))), "ready");
    assert!(!change(plain(), content(marks(&[DELETED], false), json!({}), Value::Null)));
    assert!(!change(plain(), content(marks(&[], true), json!({}), Value::Null)));
}
