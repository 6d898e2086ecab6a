use super::*;

const BOTH: [&str; 2] = [keys::SNAPSHOT_AS_SOURCE, keys::SNAPSHOT_BOUND];

fn deleted(finalizers: &[&str]) -> Arc<VolumeSnapshot> {
    let mut object = snapshot(of_claim(), finalizers, Value::Null).as_ref().clone();
    object.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    Arc::new(object)
}

fn deleting(finalizers: &[&str], content: Option<Arc<VolumeSnapshotContent>>) -> Snapshot {
    Snapshot { object: deleted(finalizers), claim: Some(claim(&[])), content, ..dynamic() }
}

fn marked(policy: &str, gone: bool) -> Arc<VolumeSnapshotContent> {
    let mut marked = content(json!({"deletionPolicy": policy}), Value::Null).as_ref().clone();
    marked.set_annotation(keys::SNAPSHOT_BEING_DELETED, "yes");
    if gone {
        marked.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    }
    Arc::new(marked)
}

#[test]
fn a_deleted_snapshot_takes_its_content_along() {
    let plain = content(json!({}), Value::Null);
    assert_eq!(step(deleting(&BOTH, Some(plain))), Step::Do(Action::MarkBeingDeleted));
    assert_eq!(step(deleting(&BOTH, Some(marked("Delete", false)))), Step::Do(Action::DeleteContent));
    let remove = |finalizers: &[&'static str]| Step::Do(Action::RemoveFinalizers(finalizers.to_vec()));
    assert_eq!(step(deleting(&BOTH, Some(marked("Delete", true)))), remove(&BOTH[..1]));
    assert_eq!(step(deleting(&BOTH[1..], Some(marked("Delete", true)))), Step::Wait(Why::ContentDeleting));
    assert_eq!(step(deleting(&BOTH[1..], None)), remove(&BOTH[1..]));
    assert_eq!(step(deleting(&[], None)), Step::Done);
}

#[test]
fn edge_5_10_4_a_retained_content_is_marked_and_kept() {
    let plain = content(json!({"deletionPolicy": "Retain"}), Value::Null);
    assert_eq!(step(deleting(&BOTH, Some(plain))), Step::Do(Action::MarkBeingDeleted));
    let kept = step(deleting(&BOTH, Some(marked("Retain", false))));
    assert_eq!(kept, Step::Do(Action::RemoveFinalizers(BOTH.to_vec())));
}

#[test]
fn edge_5_10_12_a_snapshot_that_is_being_restored_waits() {
    let mut seen = deleting(&BOTH, Some(content(json!({}), Value::Null)));
    seen.restoring = Some("restored".into());
    assert!(matches!(step(seen.clone()), Step::Wait(Why::DeletePending(_))));
    seen.content = None;
    assert!(matches!(step(seen), Step::Do(Action::RemoveFinalizers(_))), "nothing to restore from");
}

#[test]
fn edge_5_10_6_a_content_that_points_elsewhere_keeps_no_snapshot() {
    let other =
        content(json!({"volumeSnapshotRef": {"name": "snap", "namespace": "ns", "uid": "x"}}), Value::Null);
    let step = step(deleting(&BOTH, Some(other)));
    assert_eq!(step, Step::Do(Action::RemoveFinalizers(BOTH.to_vec())));
}

#[test]
fn edge_5_10_11_the_claim_is_released_before_the_snapshot_goes() {
    let mut seen = deleting(&BOTH[..1], None);
    seen.claim = Some(claim(&[keys::SNAPSHOT_SOURCE_CLAIM]));
    assert_eq!(step(seen.clone()), Step::Do(Action::ReleaseClaim));
    seen.claim_used = true;
    assert!(matches!(step(seen), Step::Do(Action::RemoveFinalizers(_))), "another snapshot releases it");
}

#[test]
fn edge_5_10_7_a_snapshot_without_its_class_can_be_deleted() {
    let mut seen = deleting(&BOTH, Some(content(json!({}), Value::Null)));
    seen.class = None;
    assert_eq!(step(seen), Step::Do(Action::MarkBeingDeleted));
}

/// Goal: a content whose create was not answered is not left behind by a snapshot that is deleted meanwhile.
#[test]
fn a_create_without_an_answer_is_repeated_before_the_snapshot_lets_go() {
    let mut seen = deleting(&BOTH[..1], None);
    let lost = content(json!({}), Value::Null);
    seen.unanswered = Some(lost.clone());
    assert_eq!(step(seen.clone()), Step::Do(Action::CreateContent(Box::new(lost.as_ref().clone()))));
    seen.content = Some(lost);
    assert_eq!(step(seen), Step::Do(Action::MarkBeingDeleted));
}
