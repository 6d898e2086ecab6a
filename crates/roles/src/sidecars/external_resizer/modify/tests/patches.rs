//! What is written into a claim's status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::patch;
use super::*;

const THEN: &str = "1970-01-01T00:00:00Z";

fn now() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}

#[test]
fn pending_touches_neither_target_nor_conditions() {
    let patch = patch::pending(&wants("none").status("InProgress", "gold").object());
    let expected = json!({"metadata": {"resourceVersion": "7"}, "status": {"modifyVolumeStatus": {"status": "Pending"}}});
    assert_eq!(patch, expected);
}

#[test]
fn in_progress_names_the_class_that_is_wanted() {
    let patch = patch::in_progress(&wants("gold").object(), &now());
    let text = "Modifying volume to \"gold\" is in progress.";
    let expected = json!({
        "metadata": {"resourceVersion": "7"},
        "status": {
            "modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "gold"},
            "conditions": [{
                "type": "ModifyingVolume", "status": "True", "message": text,
                "lastProbeTime": THEN, "lastTransitionTime": THEN,
            }],
        },
    });
    assert_eq!(patch, expected);
}

#[test]
fn failures_say_what_they_are() {
    let table = [
        ("final", true, false, 13, "InProgress", "Internal", "failed. Waiting for retry."),
        ("infeasible", true, true, 3, "Infeasible", "InvalidArgument", "failed. Waiting for retry."),
        ("uncertain", false, false, 1, "InProgress", "Canceled", "is still in progress."),
    ];
    for (name, last, infeasible, code, status, reason, text) in table {
        let message = format!("rpc error: code = {reason} desc = it said: no");
        let failure = Failure { last, infeasible, code, message };
        let patch = patch::failed(&wants("gold").status("InProgress", "gold").object(), &failure, &now());
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}), "{name}");
        assert_eq!(patch["status"]["modifyVolumeStatus"], json!({"status": status}), "{name}");
        let [modifying, error] = patch["status"]["conditions"].as_array().unwrap().as_slice() else {
            panic!("{name}: {patch}")
        };
        assert_eq!(modifying["message"], json!(format!("Modifying volume to \"gold\" {text}")), "{name}");
        assert_eq!((&error["reason"], &error["message"]), (&json!(reason), &json!("it said: no")), "{name}");
    }
}

#[test]
fn completion_and_cancel_are_not_guarded_by_the_resource_version() {
    let claim =
        wants("gold").in_progress("gold").condition(MODIFY_VOLUME_ERROR).condition("Foreign").object();
    let deleted = |type_: &str| json!({"$patch": "delete", "type": type_});
    let done = json!({
        "metadata": {"uid": "uid-1"},
        "status": {
            "modifyVolumeStatus": null,
            "currentVolumeAttributesClassName": "gold",
            "conditions": [deleted("ModifyingVolume"), deleted("ModifyVolumeError")],
        },
    });
    assert_eq!(patch::done(&claim, "gold"), done);
    let canceled =
        json!({"metadata": {"uid": "uid-1"}, "status": {"conditions": [deleted("ModifyingVolume")]}});
    assert_eq!(patch::canceled(&claim), canceled);
}
