use super::*;
use bowline_api::snapshot::VolumeSnapshotStatus;

const BOTH: [&str; 2] = [keys::SNAPSHOT_AS_SOURCE, keys::SNAPSHOT_BOUND];

fn updated(seen: Snapshot) -> VolumeSnapshotStatus {
    match step(seen) {
        Step::Do(Action::UpdateStatus(status)) => *status,
        other => panic!("{other:?}"),
    }
}

fn bound(status: Value, content_status: Value) -> Snapshot {
    let mut seen = dynamic();
    seen.claim = Some(claim(&[]));
    seen.object = snapshot(of_claim(), &BOTH, status);
    seen.content = Some(content(json!({}), content_status));
    seen
}

fn ready() -> Value {
    json!({
        "boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": true,
        "creationTime": "2023-11-14T22:13:20Z", "restoreSize": "1Gi",
    })
}

fn taken() -> Value {
    json!({"snapshotHandle": "s", "readyToUse": true, "creationTime": 1_700_000_000_987_654_321_i64, "restoreSize": 1_073_741_824})
}

#[test]
fn the_status_follows_the_content() {
    let first = updated(bound(Value::Null, Value::Null));
    assert_eq!(first.bound_volume_snapshot_content_name.as_deref(), Some("snapcontent-u"));
    assert_eq!((first.ready_to_use, first.creation_time, first.restore_size), (Some(false), None, None));
    let then = updated(bound(
        json!({"boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": false}),
        taken(),
    ));
    assert_eq!(serde_json::to_value(&then).unwrap(), ready());
    assert_eq!(step(bound(ready(), taken())), Step::Done);
}

#[test]
fn a_bound_snapshot_with_policy_delete_gets_the_second_finalizer() {
    let mut seen = bound(ready(), taken());
    seen.object = snapshot(of_claim(), &BOTH[..1], ready());
    assert_eq!(step(seen.clone()), Step::Do(Action::AddFinalizers(vec![keys::SNAPSHOT_BOUND])));
    seen.content = Some(content(json!({"deletionPolicy": "Retain"}), taken()));
    assert_eq!(step(seen), Step::Done);
}

/// Goal: what went wrong at the driver shows on the snapshot, also while both sides say that it is not ready.
#[test]
fn errors_of_the_content_show_on_the_snapshot() {
    let unready = json!({"boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": false});
    let failed = json!({"readyToUse": false, "error": {"message": "no room"}});
    let status = updated(bound(unready, failed.clone()));
    assert_eq!(status.error.as_ref().and_then(|error| error.message.as_deref()), Some("no room"));
    let shown = serde_json::to_value(&status).unwrap();
    assert_eq!(step(bound(shown, failed)), Step::Wait(Why::NotReady));
}

#[test]
fn edge_5_10_9_a_size_of_zero_is_not_stored_and_filled_in_later() {
    let zero = json!({"snapshotHandle": "s", "readyToUse": false, "restoreSize": 0});
    let status = updated(bound(Value::Null, zero));
    assert_eq!(status.restore_size, None);
    let old =
        json!({"boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": true, "restoreSize": "0"});
    let status = updated(bound(old, taken()));
    assert_eq!(status.restore_size.map(|size| size.0), Some("1Gi".into()));
}

#[test]
fn edge_5_10_10_a_partial_status_is_rebuilt_and_an_old_error_cleared() {
    let partial = json!({"boundVolumeSnapshotContentName": "snapcontent-u", "error": {"message": "old"}});
    assert_eq!(serde_json::to_value(updated(bound(partial, taken()))).unwrap(), ready());
    let mut stale = ready();
    stale["error"] = json!({"message": "old"});
    assert_eq!(serde_json::to_value(updated(bound(stale, taken()))).unwrap(), ready());
}

#[test]
fn edge_5_10_7_a_ready_snapshot_whose_class_is_gone_stays_ready() {
    let mut seen = bound(ready(), taken());
    seen.class = None;
    let Step::Do(Action::Report(problem)) = step(seen) else { panic!("not reported") };
    assert_eq!((problem.reason, problem.not_ready), ("GetSnapshotClassFailed", false));
    let status = super::super::decide::with_error(
        bound(ready(), taken()).object.status.as_ref(),
        &problem,
        jiff::Timestamp::UNIX_EPOCH,
    );
    assert_eq!(status.ready_to_use, Some(true));
}

#[test]
fn a_ready_snapshot_without_its_content_is_no_longer_ready() {
    let mut seen = bound(ready(), taken());
    seen.content = None;
    let Step::Do(Action::Report(problem)) = step(seen.clone()) else { panic!("not reported") };
    assert_eq!((problem.reason, problem.not_ready), ("SnapshotContentMissing", true));
    seen.content =
        Some(content(json!({"volumeSnapshotRef": {"name": "snap", "namespace": "ns", "uid": "x"}}), taken()));
    assert_eq!(reason(seen), "SnapshotMisbound");
}

#[test]
fn edge_5_10_11_the_claim_is_released_with_its_last_unready_snapshot() {
    let mut seen = bound(ready(), taken());
    seen.claim = Some(claim(&[keys::SNAPSHOT_SOURCE_CLAIM]));
    seen.claim_used = true;
    assert_eq!(step(seen.clone()), Step::Done);
    seen.claim_used = false;
    assert_eq!(step(seen), Step::Do(Action::ReleaseClaim));
    let mut unready =
        bound(json!({"boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": false}), Value::Null);
    unready.claim = Some(claim(&[keys::SNAPSHOT_SOURCE_CLAIM]));
    assert_eq!(step(unready), Step::Wait(Why::NotReady));
}
