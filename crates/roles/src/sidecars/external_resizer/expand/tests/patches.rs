//! What is written into a claim's status.

use bowline_api::expansion::{CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::patch;
use super::*;

fn now() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}
const THEN: &str = "1970-01-01T00:00:00Z";

fn claim(case: &Case) -> PersistentVolumeClaim {
    serde_json::from_value(case.claim.clone()).unwrap()
}

#[test]
fn a_fresh_mark_replaces_the_conditions_of_the_attempt_before() {
    let case = asks("2Gi").condition(CONTROLLER_RESIZE_ERROR).condition("Foreign");
    let case = case.annotated(keys::NODE_EXPANSION_NOT_REQUIRED, "true");
    let patch = patch::marked(&claim(&case), &q("2Gi"), true, &now());
    let expected = json!({
        "metadata": {"resourceVersion": "7", "annotations": {keys::NODE_EXPANSION_NOT_REQUIRED: null}},
        "status": {
            "conditions": [
                {"type": "Resizing", "status": "True", "lastTransitionTime": THEN},
                {"$patch": "delete", "type": "ControllerResizeError"},
            ],
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        },
    });
    assert_eq!(patch, expected);
}

#[test]
fn a_mark_of_the_same_size_keeps_state_and_conditions() {
    let case = asks("2Gi").alloc("2Gi").st(INFEASIBLE).condition(CONTROLLER_RESIZE_ERROR);
    let patch = patch::marked(&claim(&case), &q("2Gi"), false, &now());
    let resizing = json!([{"type": "Resizing", "status": "True", "lastTransitionTime": THEN}]);
    let status = json!({"conditions": resizing, "allocatedResources": {"storage": "2Gi"}});
    assert_eq!(patch, json!({"metadata": {"resourceVersion": "7"}, "status": status}));
}

#[test]
fn edge_4_8_5_errors_are_written_without_a_resource_version_and_the_rest_with_one() {
    let claim = claim(&asks("2Gi").marked("2Gi", IN_PROGRESS));
    for infeasible in [true, false] {
        let patch = patch::refused(&claim, infeasible, "rpc error: code = OutOfRange desc = no", &now());
        assert_eq!(patch["metadata"], json!({"uid": "uid-1"}), "a later claim of that name is not this one");
        let text = "failed to expand pvc with rpc error: code = OutOfRange desc = no";
        let error = json!([{"type": "ControllerResizeError", "status": "True", "lastTransitionTime": THEN, "message": text}]);
        assert_eq!(patch["status"]["conditions"], error);
        let st = if infeasible { json!({"storage": "ControllerResizeInfeasible"}) } else { Value::Null };
        assert_eq!(patch["status"].get("allocatedResourceStatuses").cloned().unwrap_or_default(), st);
    }
    for patch in [
        patch::marked(&claim, &q("2Gi"), true, &now()),
        patch::node_pending(&claim, &now()),
        patch::done(&claim, &q("2Gi")),
    ] {
        assert_eq!(patch["metadata"]["resourceVersion"], json!("7"), "{patch}");
    }
}

#[test]
fn the_node_is_asked_to_go_on() {
    let patch = patch::node_pending(&claim(&asks("2Gi").marked("2Gi", IN_PROGRESS)), &now());
    let text = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    let expected = json!({
        "conditions": [{"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": THEN, "message": text}],
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    });
    assert_eq!(patch["status"], expected);
}

#[test]
fn edge_4_8_7_what_was_allocated_survives_completion() {
    let case = asks("2Gi").marked("2Gi", IN_PROGRESS).condition(NODE_RESIZE_ERROR).condition("Foreign");
    let patch = patch::done(&claim(&case), &q("2Gi"));
    let expected = json!({
        "metadata": {"resourceVersion": "7", "annotations": {keys::NODE_EXPANSION_NOT_REQUIRED: "true"}},
        "status": {
            "capacity": {"storage": "2Gi"},
            "conditions": [
                {"$patch": "delete", "type": "Resizing"},
                {"$patch": "delete", "type": "NodeResizeError"},
            ],
            "allocatedResourceStatuses": null,
        },
    });
    assert_eq!(patch, expected);
}

#[test]
fn edge_4_8_8_statuses_of_other_resources_are_kept() {
    let mut case = asks("2Gi").marked("2Gi", IN_PROGRESS);
    case.claim["status"]["allocatedResourceStatuses"]["example.com/iops"] = json!("NodeResizePending");
    let patch = patch::done(&claim(&case), &q("2Gi"));
    assert_eq!(patch["status"]["allocatedResourceStatuses"], json!({"storage": null}));
}

/// RES-1: a patch that was delayed on its way must not take back what a later expansion wrote.
#[test]
fn the_size_of_a_volume_is_written_over_what_was_seen_only() {
    let volume: PersistentVolume = serde_json::from_value(asks("2Gi").volume).unwrap();
    let expected = json!({"metadata": {"resourceVersion": "5"}, "spec": {"capacity": {"storage": "2Gi"}}});
    assert_eq!(patch::capacity(&volume, &q("2Gi")), expected);
}
