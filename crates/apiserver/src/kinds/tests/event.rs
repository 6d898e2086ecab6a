use serde_json::json;

use super::*;
use crate::kinds::event::EventRules;

fn base() -> Value {
    json!({
        "metadata": {"name": "data.1", "namespace": "default"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": "u", "apiVersion": "v1", "resourceVersion": "7"},
        "reason": "Provisioning", "message": " wait\n", "type": "Normal",
        "source": {"component": "provisioner", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:05:00Z", "lastTimestamp": "2026-01-01T00:09:30Z", "count": 3,
    })
}

/// Turns the event into one of the newer style.
fn new_style() -> Value {
    json!({
        "eventTime": "2026-01-01T00:08:00.000000Z", "reportingComponent": "example.com/me", "reportingInstance": "me-1",
        "action": "Provision", "source": null, "firstTimestamp": null, "lastTimestamp": null, "count": null,
    })
}

#[test]
fn an_event_lives_beside_its_object() {
    const WRONG: &str = "does not match event.namespace";
    let theirs = format!("involvedObject.namespace: Invalid value: \"other\": {WRONG}");
    let none = format!("involvedObject.namespace: Invalid value: \"\": {WRONG}");
    check_create::<EventRules>(
        &base(),
        &[
            ("elsewhere", json!({"involvedObject": {"namespace": "other"}}), &[&theirs]),
            ("cluster-scoped in default", json!({"involvedObject": {"namespace": null}}), &[]),
            (
                "cluster-scoped elsewhere",
                json!({"metadata": {"namespace": "other"}, "involvedObject": {"namespace": null}}),
                &[&none],
            ),
            (
                "namespace",
                json!({"metadata": {"namespace": "A"}, "involvedObject": {"namespace": "A"}}),
                &["namespace: Invalid value: \"A\": a lowercase RFC 1123…"],
            ),
        ],
    );
}

#[test]
fn newer_clients_say_who_and_what() {
    check_create::<EventRules>(
        &patched(&base(), &new_style()),
        &[
            ("object elsewhere", json!({"involvedObject": {"namespace": "other"}}), &[]),
            (
                "cluster-scoped in kube-system",
                json!({"metadata": {"namespace": "kube-system"}, "involvedObject": {"namespace": null}}),
                &[],
            ),
            (
                "who",
                json!({"reportingComponent": null}),
                &[
                    "reportingComponent: Required value",
                    "reportingComponent: Invalid value: \"\": name part must be non-empty",
                    "reportingComponent: Invalid value: \"\": name part must consist…",
                ],
            ),
            ("which", json!({"reportingInstance": null}), &["reportingInstance: Required value"]),
            ("what", json!({"action": null}), &["action: Required value"]),
            (
                "why",
                json!({"reason": "x".repeat(129)}),
                &["reason: Invalid value: \"\": can have at most 128 characters"],
            ),
            (
                "note",
                json!({"message": "x".repeat(1025)}),
                &["message: Invalid value: \"\": can have at most 1024 characters"],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(
        header::<EventRules>(),
        "LAST SEEN | TYPE | REASON | OBJECT | [SUBOBJECT] | [SOURCE] | MESSAGE | [FIRST SEEN] | [COUNT] | [NAME]"
    );
    let claim = "persistentvolumeclaim/data";
    assert_eq!(
        row::<EventRules>(&base()),
        format!("30s | Normal | Provisioning | {claim} |  | provisioner, n1 | wait | 5m | 3 | data.1")
    );
    let newer = patched(&base(), &new_style());
    assert_eq!(
        row::<EventRules>(&newer),
        format!("2m | Normal | Provisioning | {claim} |  | example.com/me, me-1 | wait | 2m | 1 | data.1")
    );
    let series =
        patched(&newer, &json!({"series": {"count": 9, "lastObservedTime": "2026-01-01T00:09:59.000000Z"}}));
    assert_eq!(
        row::<EventRules>(&series),
        format!("1s | Normal | Provisioning | {claim} |  | example.com/me, me-1 | wait | 2m | 9 | data.1")
    );
    let bare = json!({"metadata": {"name": "x"}, "involvedObject": {"kind": "Node", "fieldPath": "spec"}});
    assert_eq!(row::<EventRules>(&bare), "<unknown> |  |  | node | spec |  |  | <unknown> | 1 | x");
}

#[test]
fn selectable() {
    let want = [
        "involvedObject.kind=PersistentVolumeClaim",
        "involvedObject.namespace=default",
        "involvedObject.name=data",
        "involvedObject.uid=u",
        "involvedObject.apiVersion=v1",
        "involvedObject.resourceVersion=7",
        "involvedObject.fieldPath=",
        "reason=Provisioning",
        "reportingComponent=",
        "source=provisioner",
        "type=Normal",
    ];
    assert_eq!(labels::<EventRules>(&base()), want);
    let newer = labels::<EventRules>(&patched(&base(), &new_style()));
    assert_eq!(newer[9], "source=example.com/me");
}
