use serde_json::json;

use super::*;
use crate::kinds::pod::PodRules;

/// A pod with containers `a` and `b`, init container `i` and sidecar `s`.
fn pod(status: Value) -> Value {
    let container = |name: &str| json!({"name": name, "image": "x"});
    let sidecar = json!({"name": "s", "image": "x", "restartPolicy": "Always"});
    json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [container("a"), container("b")], "initContainers": [container("i"), sidecar]},
        "status": status,
    })
}

/// Status of one container.
fn one(name: &str, ready: bool, state: Value) -> Value {
    json!({"name": name, "image": "x", "imageID": "", "ready": ready, "restartCount": 0, "state": state})
}

fn ended(code: i32, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason}})
}

/// READY, STATUS and RESTARTS.
fn shown(object: &Value) -> String {
    row::<PodRules>(object).split(" | ").skip(1).take(3).collect::<Vec<_>>().join(" | ")
}

#[test]
fn columns() {
    assert_eq!(
        header::<PodRules>(),
        "NAME | READY | STATUS | RESTARTS | AGE | [IP] | [NODE] | [NOMINATED NODE] | [READINESS GATES]"
    );
    assert_eq!(
        row::<PodRules>(&pod(json!({"phase": "Pending"}))),
        "p | 0/3 | Pending | 0 | 10m | <none> | <none> | <none> | <none>"
    );
    let wide = json!({
        "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.5"}], "nominatedNodeName": "m", "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]},
    });
    assert_eq!(
        row::<PodRules>(&patched(&pod(json!({})), &wide)),
        "p | 0/3 | Running | 0 | 10m | 10.0.0.5 | n | m | 1/2"
    );
}

#[test]
fn while_initializing() {
    let pending = |statuses: Value| pod(json!({"phase": "Pending", "initContainerStatuses": statuses}));
    let table = [
        ("first", json!([one("i", false, json!({"running": {}}))]), "0/3 | Init:0/2 | 0"),
        (
            "second",
            json!([one("i", false, ended(0, "Completed")), one("s", false, json!({"running": {}}))]),
            "0/3 | Init:1/2 | 0",
        ),
        (
            "waits",
            json!([one("i", false, json!({"waiting": {"reason": "ImagePullBackOff"}}))]),
            "0/3 | Init:ImagePullBackOff | 0",
        ),
        (
            "about to",
            json!([one("i", false, json!({"waiting": {"reason": "PodInitializing"}}))]),
            "0/3 | Init:0/2 | 0",
        ),
        ("failed", json!([one("i", false, ended(1, "Error"))]), "0/3 | Init:Error | 0"),
        ("code", json!([one("i", false, ended(3, ""))]), "0/3 | Init:ExitCode:3 | 0"),
        (
            "signal",
            json!([one("i", false, json!({"terminated": {"exitCode": 137, "signal": 9}}))]),
            "0/3 | Init:Signal:9 | 0",
        ),
    ];
    for (name, statuses, want) in table {
        assert_eq!(shown(&pending(statuses)), want, "{name}");
    }
}

#[test]
fn once_initialized() {
    let up = json!({"running": {}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let status = |phase: &str, a: Value, b: Value| json!({"phase": phase, "containerStatuses": [a, b]});
    let table = [
        (
            "both up",
            status("Running", one("a", true, up.clone()), one("b", true, up.clone())),
            "2/3 | Running | 0",
        ),
        (
            "one not ready",
            status("Running", one("a", true, up.clone()), one("b", false, up.clone())),
            "1/3 | Running | 0",
        ),
        (
            "creating",
            status(
                "Pending",
                one("a", false, json!({"waiting": {"reason": "ContainerCreating"}})),
                one("b", false, up.clone()),
            ),
            "0/3 | ContainerCreating | 0",
        ),
        (
            "first one wins",
            status(
                "Running",
                one("a", false, json!({"waiting": {"reason": "CrashLoopBackOff"}})),
                one("b", false, ended(1, "Error")),
            ),
            "0/3 | CrashLoopBackOff | 0",
        ),
        (
            "done",
            status(
                "Succeeded",
                one("a", false, ended(0, "Completed")),
                one("b", false, ended(0, "Completed")),
            ),
            "0/3 | Completed | 0",
        ),
        (
            "one done, one up",
            patched(
                &status("Running", one("a", false, ended(0, "Completed")), one("b", true, up.clone())),
                &json!({"conditions": ready}),
            ),
            "1/3 | Running | 0",
        ),
        (
            "one done, pod not ready",
            status("Running", one("a", false, ended(0, "Completed")), one("b", true, up)),
            "1/3 | NotReady | 0",
        ),
        (
            "one done, one failed",
            status("Failed", one("a", false, ended(0, "Completed")), one("b", false, ended(1, "Error"))),
            "0/3 | Error | 0",
        ),
        (
            "code",
            status("Failed", one("a", false, ended(2, "")), one("b", false, ended(2, ""))),
            "0/3 | ExitCode:2 | 0",
        ),
        ("reason of the pod", json!({"phase": "Failed", "reason": "Evicted"}), "0/3 | Evicted | 0"),
        (
            "gated",
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "0/3 | SchedulingGated | 0",
        ),
    ];
    for (name, status, want) in table {
        assert_eq!(shown(&pod(status)), want, "{name}");
    }
}

#[test]
fn sidecars_count() {
    let mut sidecar = one("s", true, json!({"running": {}}));
    sidecar["started"] = true.into();
    let up = json!({"running": {}});
    let status = json!({
        "phase": "Running",
        "initContainerStatuses": [one("i", false, ended(0, "Completed")), sidecar],
        "containerStatuses": [one("a", true, up.clone()), one("b", true, up)],
    });
    assert_eq!(shown(&pod(status)), "3/3 | Running | 0");
}

#[test]
fn restarts() {
    let mut a = one("a", true, json!({"running": {}}));
    a["restartCount"] = 2.into();
    a["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:07:00Z"}});
    let mut b = one("b", true, json!({"running": {}}));
    b["restartCount"] = 1.into();
    b["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:06:00Z"}});
    let mut init = one("i", false, ended(0, "Completed"));
    init["restartCount"] = 7.into();
    let status = json!({"phase": "Running", "initContainerStatuses": [init], "containerStatuses": [a, b]});
    assert_eq!(shown(&pod(status)), "2/3 | Running | 3 (3m ago)", "init containers no longer count");
    let mut failing = one("i", false, json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    failing["restartCount"] = 4.into();
    let status = json!({"phase": "Pending", "initContainerStatuses": [failing]});
    assert_eq!(shown(&pod(status)), "0/3 | Init:CrashLoopBackOff | 4");
}

#[test]
fn deleting() {
    let deleting = |status: Value| patched(&pod(status), &json!({"metadata": {"deletionTimestamp": NOW}}));
    assert_eq!(shown(&deleting(json!({"phase": "Running"}))), "0/3 | Terminating | 0");
    assert_eq!(shown(&deleting(json!({"phase": "Running", "reason": "NodeLost"}))), "0/3 | Unknown | 0");
    assert_eq!(shown(&deleting(json!({"phase": "Failed", "reason": "Evicted"}))), "0/3 | Evicted | 0");
}
