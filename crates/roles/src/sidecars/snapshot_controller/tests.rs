mod deletion;
mod status;

use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys};
use bowline_api::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use bowline_machinery::Step;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decide::decide;
use super::model::{Action, Content, Observed, Settings, Snapshot, Why};

fn object<K: DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn class(name: &str, driver: &str, policy: &str) -> Arc<VolumeSnapshotClass> {
    let annotations = json!({(keys::DEFAULT_SNAPSHOT_CLASS): "true"});
    object(json!({
        "metadata": {"name": name, "annotations": annotations}, "driver": driver, "deletionPolicy": policy,
    }))
}

fn claim(finalizers: &[&str]) -> Arc<PersistentVolumeClaim> {
    object(json!({
        "metadata": {
            "name": "data", "namespace": "ns", "uid": "c-1", "finalizers": finalizers,
            "annotations": {(keys::BIND_COMPLETED): "yes"},
        },
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }))
}

fn volume() -> Arc<PersistentVolume> {
    object(json!({
        "metadata": {"name": "pv-1"},
        "spec": {
            "claimRef": {"name": "data", "namespace": "ns", "uid": "c-1"}, "volumeMode": "Block",
            "csi": {"driver": "d", "volumeHandle": "v-1"},
        },
    }))
}

fn snapshot(spec: Value, finalizers: &[&str], status: Value) -> Arc<VolumeSnapshot> {
    object(json!({
        "metadata": {
            "name": "snap", "namespace": "ns", "uid": "u", "resourceVersion": "7", "finalizers": finalizers,
        },
        "spec": spec, "status": status,
    }))
}

fn content(spec: Value, status: Value) -> Arc<VolumeSnapshotContent> {
    let mut whole = json!({
        "volumeSnapshotRef": {"name": "snap", "namespace": "ns", "uid": "u"},
        "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "v-1"},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    object(
        json!({"metadata": {"name": "snapcontent-u", "resourceVersion": "9"}, "spec": whole, "status": status}),
    )
}

const OF_CLAIM: &str =
    r#"{"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "local"}"#;

fn of_claim() -> Value {
    serde_json::from_str(OF_CLAIM).unwrap()
}

fn of_content() -> Value {
    json!({"source": {"volumeSnapshotContentName": "snapcontent-u"}})
}

/// A snapshot of a claim that is ready for its content to be made.
fn dynamic() -> Snapshot {
    Snapshot {
        settings: Settings { keep_volume_mode: true, distributed: false },
        object: snapshot(of_claim(), &[keys::SNAPSHOT_AS_SOURCE], Value::Null),
        class: Some(class("local", "d", "Delete")),
        defaults: Vec::new(),
        claim: Some(claim(&[keys::SNAPSHOT_SOURCE_CLAIM])),
        claim_used: false,
        volume: Some(volume()),
        node: None,
        content: None,
        restoring: None,
        unanswered: None,
    }
}

fn step(seen: Snapshot) -> Step<Action, Why> {
    decide(&Observed::Snapshot(Box::new(seen)))
}

/// The reason that is reported, or waited for after it was.
fn reason(seen: Snapshot) -> &'static str {
    match step(seen) {
        Step::Do(Action::Report(problem)) | Step::Wait(Why::Problem(problem)) => problem.reason,
        other => panic!("{other:?}"),
    }
}

fn created(seen: Snapshot) -> VolumeSnapshotContent {
    match step(seen) {
        Step::Do(Action::CreateContent(content)) => *content,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_of_a_claim_gets_its_content_in_steps() {
    let mut seen = dynamic();
    seen.object = snapshot(of_claim(), &[], Value::Null);
    seen.claim = Some(claim(&[]));
    assert_eq!(step(seen.clone()), Step::Do(Action::AddFinalizers(vec![keys::SNAPSHOT_AS_SOURCE])));
    seen.object = dynamic().object;
    assert_eq!(step(seen), Step::Do(Action::GuardClaim));
    let content = created(dynamic());
    assert_eq!(content.name(), "snapcontent-u");
    let spec = serde_json::to_value(&content.spec).unwrap();
    assert_eq!(
        spec,
        json!({
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "name": "snap",
                "namespace": "ns", "uid": "u", "resourceVersion": "7",
            },
            "deletionPolicy": "Delete", "driver": "d", "volumeSnapshotClassName": "local",
            "source": {"volumeHandle": "v-1"}, "sourceVolumeMode": "Block",
        })
    );
    assert!(content.metadata.annotations.is_none() && content.metadata.labels.is_none());
}

#[test]
fn flags_and_class_shape_the_content() {
    let mut seen = dynamic();
    seen.settings = Settings { keep_volume_mode: false, distributed: true };
    seen.node = Some("node-1".into());
    let parameters = json!({
        "csi.storage.k8s.io/snapshotter-secret-name": "${volumesnapshot.name}-key",
        "csi.storage.k8s.io/snapshotter-secret-namespace": "secrets",
    });
    seen.class = Some(object(json!({
        "metadata": {"name": "local"}, "driver": "other", "deletionPolicy": "Retain", "parameters": parameters,
    })));
    let content = created(seen);
    assert_eq!(content.label(keys::SNAPSHOT_MANAGED_BY), Some("node-1"));
    assert_eq!(content.annotation(keys::SNAPSHOT_DELETION_SECRET_NAME), Some("snap-key"));
    assert_eq!(content.annotation(keys::SNAPSHOT_DELETION_SECRET_NAMESPACE), Some("secrets"));
    assert_eq!((content.spec.source_volume_mode, content.spec.driver.as_str()), (None, "other"));
    assert_eq!(content.spec.deletion_policy, "Retain");
}

#[test]
fn a_class_that_is_named_must_exist() {
    let mut seen = dynamic();
    seen.class = None;
    assert_eq!(reason(seen), "GetSnapshotClassFailed");
}

#[test]
fn edge_5_10_15_the_default_class_is_the_only_one_of_the_volumes_driver() {
    let unnamed = json!({"source": {"persistentVolumeClaimName": "data"}});
    let mut seen = dynamic();
    seen.class = None;
    seen.object = snapshot(unnamed.clone(), &[], Value::Null);
    assert_eq!(reason(seen.clone()), "SetDefaultSnapshotClassFailed");
    seen.defaults = vec![class("other", "e", "Delete"), class("ours", "d", "Delete")];
    assert_eq!(step(seen.clone()), Step::Do(Action::SetDefaultClass("ours".into())));
    seen.defaults.push(class("ours-too", "d", "Delete"));
    assert_eq!(reason(seen.clone()), "SetDefaultSnapshotClassFailed");
    // One of a content needs none.
    seen.object = snapshot(of_content(), &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
    assert_eq!(reason(seen), "SnapshotContentMissing");
}

#[test]
fn what_cannot_be_snapshotted_is_reported() {
    let change = |change: &dyn Fn(&mut Snapshot)| {
        let mut seen = dynamic();
        change(&mut seen);
        reason(seen)
    };
    let gone = change(&|seen| seen.claim = None);
    let deleting = change(&|seen| {
        let mut claim = claim(&[]).as_ref().clone();
        claim.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        seen.claim = Some(Arc::new(claim));
    });
    let unbound = change(&|seen| {
        let mut claim = claim(&[keys::SNAPSHOT_SOURCE_CLAIM]).as_ref().clone();
        claim.status = None;
        claim.spec.get_or_insert_default().volume_name = None;
        seen.claim = Some(Arc::new(claim));
    });
    let no_volume = change(&|seen| seen.volume = None);
    let another_claims = change(&|seen| {
        let mut volume = volume().as_ref().clone();
        let spec = volume.spec.get_or_insert_default();
        spec.claim_ref.get_or_insert_default().uid = Some("c-2".into());
        seen.volume = Some(Arc::new(volume));
    });
    let not_csi = change(&|seen| {
        let mut volume = volume().as_ref().clone();
        volume.spec.get_or_insert_default().csi = None;
        seen.volume = Some(Arc::new(volume));
    });
    for reason in [gone, deleting, unbound, no_volume, another_claims, not_csi] {
        assert_eq!(reason, "SnapshotContentCreationFailed");
    }
    let both = json!({"source": {"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}});
    let neither = json!({"source": {}});
    for spec in [both, neither] {
        let mut seen = dynamic();
        seen.class = None;
        seen.object = snapshot(spec, &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
        if seen.object.spec.source.persistent_volume_claim_name.is_some() {
            seen.defaults = vec![class("local", "d", "Delete")];
            seen.object = Arc::new(VolumeSnapshot {
                spec: bowline_api::snapshot::VolumeSnapshotSpec {
                    volume_snapshot_class_name: Some("local".into()),
                    ..seen.object.spec.clone()
                },
                ..seen.object.as_ref().clone()
            });
            seen.class = Some(class("local", "d", "Delete"));
        }
        assert_eq!(reason(seen), "SnapshotValidationError");
    }
}

#[test]
fn edge_5_10_8_the_same_problem_is_reported_once() {
    let mut seen = dynamic();
    seen.claim = None;
    let Step::Do(Action::Report(problem)) = step(seen.clone()) else { panic!("not reported") };
    let status = json!({"readyToUse": false, "error": {"message": problem.message}});
    seen.object = snapshot(of_claim(), &[keys::SNAPSHOT_AS_SOURCE], status);
    assert_eq!(step(seen), Step::Wait(Why::Problem(problem)));
}

#[test]
fn a_content_that_exists_is_bound_by_uid() {
    let mut seen = dynamic();
    (seen.class, seen.claim, seen.volume) = (None, None, None);
    seen.object = snapshot(of_content(), &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
    let from = json!({"snapshotHandle": "s-1"});
    let unbound = json!({"name": "snap", "namespace": "ns"});
    seen.content = Some(content(json!({"source": from, "volumeSnapshotRef": unbound}), Value::Null));
    assert_eq!(step(seen.clone()), Step::Do(Action::Bind { class: None }));
    let spec =
        json!({"source": {"volumeSnapshotContentName": "snapcontent-u"}, "volumeSnapshotClassName": "local"});
    seen.object = snapshot(spec, &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
    seen.class = Some(class("local", "d", "Delete"));
    assert_eq!(step(seen.clone()), Step::Do(Action::Bind { class: Some("local".into()) }));
    seen.content = Some(content(json!({"source": from, "volumeSnapshotClassName": "local"}), Value::Null));
    assert!(matches!(step(seen), Step::Do(Action::UpdateStatus(_))));
}

#[test]
fn edge_5_10_6_a_content_of_another_snapshot_is_not_taken() {
    let others = [
        json!({"name": "other", "namespace": "ns"}),
        json!({"name": "snap", "namespace": "other"}),
        json!({"name": "snap", "namespace": "ns", "uid": "other"}),
    ];
    for reference in others {
        let mut seen = dynamic();
        seen.content = Some(content(json!({"volumeSnapshotRef": reference}), Value::Null));
        assert_eq!(reason(seen.clone()), "SnapshotContentMisbound", "{reference}");
        seen.object = snapshot(of_content(), &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
        let from = json!({"source": {"snapshotHandle": "s"}, "volumeSnapshotRef": reference});
        seen.content = Some(content(from, Value::Null));
        assert_eq!(reason(seen), "SnapshotContentMisbound", "{reference}");
    }
    let mut seen = dynamic();
    seen.content = Some(content(json!({"source": {"snapshotHandle": "s"}}), Value::Null));
    assert_eq!(reason(seen.clone()), "SnapshotContentMismatch");
    seen.object = snapshot(of_content(), &[keys::SNAPSHOT_AS_SOURCE], Value::Null);
    seen.content = Some(content(json!({}), Value::Null));
    assert_eq!(reason(seen), "SnapshotContentMismatch");
}

#[test]
fn a_bound_content_is_guarded_and_an_unbound_one_left_alone() {
    let guard = |content: Arc<VolumeSnapshotContent>| decide(&Observed::Content(Content { object: content }));
    assert_eq!(guard(content(json!({}), Value::Null)), Step::Do(Action::GuardContent));
    let unbound = json!({"volumeSnapshotRef": {"name": "snap", "namespace": "ns"}});
    assert_eq!(guard(content(unbound, Value::Null)), Step::Done);
    let mut guarded = content(json!({}), Value::Null).as_ref().clone();
    guarded.add_finalizer(keys::SNAPSHOT_CONTENT_BOUND);
    assert_eq!(guard(Arc::new(guarded.clone())), Step::Done);
    guarded.metadata.finalizers = None;
    guarded.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(guard(Arc::new(guarded)), Step::Done, "no finalizer can be added to a deleted object");
    assert_eq!(guard(content(json!({"source": {}}), Value::Null)), Step::Wait(Why::InvalidContent));
}
