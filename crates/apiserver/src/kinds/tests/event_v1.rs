use serde_json::json;

use super::*;
use crate::kinds::event_v1::EventV1Rules;

fn base() -> Value {
    json!({
        "metadata": {"name": "data.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:08:00.000000Z", "reportingController": "example.com/me", "reportingInstance": "me-1",
        "action": "Provision", "reason": "Provisioning", "note": "wait", "type": "Normal",
        "regarding": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"},
    })
}

/// Texts and field names as kube-apiserver v1.36.3 gives them: partly those of core's events.
#[test]
fn new_events_are_complete_and_of_the_new_style() {
    let unset = |field: &str| format!("{field}: Invalid value: \"\": needs to be unset");
    let old = ["firstTimestamp", "lastTimestamp", "count", "source"].map(unset);
    check_create::<EventV1Rules>(
        &base(),
        &[
            ("when", json!({"eventTime": null}), &["eventTime: Required value"]),
            (
                "who",
                json!({"reportingController": null}),
                &[
                    "reportingController: Required value",
                    "reportingController: Invalid value: \"\": name part must be non-empty",
                    "reportingController: Invalid value: \"\": name part must consist…",
                ],
            ),
            ("what", json!({"action": null}), &["action: Required value"]),
            ("type", json!({"type": "x"}), &["type: Invalid value: \"\": has invalid value: x"]),
            (
                "old style",
                json!({
                    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
                    "deprecatedCount": 2, "deprecatedSource": {"component": "x"},
                }),
                &old.each_ref().map(String::as_str),
            ),
            (
                "series",
                json!({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:09:00.000000Z"}}),
                &["series.count: Invalid value: \"\": should be at least 2"],
            ),
            (
                "note",
                json!({"note": "x".repeat(1025)}),
                &["message: Invalid value: \"\": can have at most 1024 characters"],
            ),
            (
                "where",
                json!({"metadata": {"namespace": "other"}, "regarding": {"namespace": null}}),
                &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
            ),
        ],
    );
}

#[test]
fn only_the_series_changes() {
    let series =
        |count: i32| json!({"series": {"count": count, "lastObservedTime": "2026-01-01T00:09:00.000000Z"}});
    check_update::<EventV1Rules>(
        &base(),
        &[
            ("series", series(2), &[]),
            ("bad series", series(1), &["series.count…"]),
            ("note", json!({"note": "other"}), &["message: Invalid value: \"other\": field is immutable"]),
            ("who", json!({"reportingController": "a.b/c"}), &["reportingController: Invalid value…"]),
            ("what", json!({"regarding": {"name": "other"}}), &["involvedObject: Invalid value…"]),
        ],
    );
}

/// An event of the old style may be told by the new API that it happened again.
#[test]
fn old_events_are_not_held_to_new_rules() {
    let old = json!({
        "metadata": {"name": "x", "namespace": "default"}, "reason": "R", "deprecatedCount": 3,
        "regarding": {"kind": "Pod", "namespace": "default"},
    });
    check_update::<EventV1Rules>(&old, &[("label", json!({"metadata": {"labels": {"a": "b"}}}), &[])]);
}

#[test]
fn shown_and_selectable() {
    assert_eq!(
        row::<EventV1Rules>(&base()),
        "2m | Normal | Provisioning | persistentvolumeclaim/data |  | example.com/me, me-1 | wait | 2m | 1 | data.1"
    );
    let labels = labels::<EventV1Rules>(&base());
    assert_eq!(labels[0], "regarding.kind=PersistentVolumeClaim");
    assert_eq!(labels[7..], ["reason=Provisioning", "reportingController=example.com/me", "type=Normal"]);
}

#[test]
fn core_shows_who_reports_even_if_nobody_does() {
    let view = EventV1Rules::stored_as().expect("a view of the events of core");
    let nobody = json!({"reportingComponent": "", "reportingInstance": ""});
    let somebody = json!({"reportingComponent": "a", "reportingInstance": "b"});
    let table =
        [(nobody, json!({})), (somebody, json!({"reportingController": "a", "reportingInstance": "b"}))];
    for (core, here) in table {
        let mut seen = (view.read)(core.clone());
        assert_eq!(seen["apiVersion"].take(), "events.k8s.io/v1");
        seen.as_object_mut().unwrap().remove("apiVersion");
        assert_eq!(seen, here);
        let stored = (view.write)(here);
        for field in ["reportingComponent", "reportingInstance"] {
            assert_eq!(stored[field], core[field]);
        }
    }
}
