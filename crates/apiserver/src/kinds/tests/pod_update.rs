use serde_json::json;

use super::pod::base;
use super::*;
use crate::kinds::pod::PodRules;

/// Start of the refusal; what follows says what changed.
const FIXED: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n…";

fn old() -> Value {
    let patch = json!({"spec": {
        "activeDeadlineSeconds": 60,
        "initContainers": [{"name": "init", "image": "a:1"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/wait"}],
    }});
    created::<PodRules>(&patched(&base(), &patch))
}

#[test]
fn what_may_change() {
    let image = |list: &str| {
        let mut container = old()["spec"][list][0].clone();
        container["image"] = "b:2".into();
        json!({"spec": {list: [container]}})
    };
    let mut command = old()["spec"]["containers"][0].clone();
    command["command"] = json!(["x"]);
    let two = json!([old()["spec"]["containers"][0], {"name": "two", "image": "a:1"}]);
    let more = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]);
    let longer = json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    check_update::<PodRules>(
        &old(),
        &[
            ("image", image("containers"), &[]),
            ("init image", image("initContainers"), &[]),
            ("shorter deadline", json!({"spec": {"activeDeadlineSeconds": 30}}), &[]),
            (
                "longer deadline",
                json!({"spec": {"activeDeadlineSeconds": 90}}),
                &[
                    "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value",
                ],
            ),
            (
                "no deadline",
                json!({"spec": {"activeDeadlineSeconds": null}}),
                &[
                    "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
                ],
            ),
            ("more tolerations", json!({"spec": {"tolerations": more}}), &[]),
            (
                "fewer tolerations",
                json!({"spec": {"tolerations": []}}),
                &[
                    "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
                ],
            ),
            (
                "other toleration",
                json!({"spec": {"tolerations": longer}}),
                &[
                    "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
                ],
            ),
            ("gate opens", json!({"spec": {"schedulingGates": null}}), &[]),
            (
                "gate comes",
                json!({"spec": {"schedulingGates": [{"name": "example.com/x"}]}}),
                &[
                    "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'example.com/x'",
                ],
            ),
            ("labels", json!({"metadata": {"labels": {"a": "b"}}}), &[]),
            ("explicit default", json!({"spec": {"hostNetwork": false, "nodeSelector": {}}}), &[]),
            ("command", json!({"spec": {"containers": [command]}}), &[FIXED]),
            (
                "one more container",
                json!({"spec": {"containers": two}}),
                &["spec.containers: Forbidden: pod updates may not add or remove containers"],
            ),
            (
                "no init container",
                json!({"spec": {"initContainers": null}}),
                &["spec.initContainers: Forbidden: pod updates may not add or remove containers"],
            ),
            ("node", json!({"spec": {"nodeName": "n"}}), &[FIXED]),
            ("grace", json!({"spec": {"terminationGracePeriodSeconds": 1}}), &[FIXED]),
            ("volume", json!({"spec": {"volumes": [{"name": "data"}]}}), &[FIXED]),
        ],
    );
    let negative = patched(&old(), &json!({"spec": {"terminationGracePeriodSeconds": -1}}));
    check_update::<PodRules>(
        &negative,
        &[("grace", json!({"spec": {"terminationGracePeriodSeconds": 1}}), &[])],
    );
}

#[test]
fn the_status_is_its_own() {
    let running = json!({
        "metadata": {"deletionTimestamp": NOW, "ownerReferences": [], "annotations": {"a": "b"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "qosClass": null, "podIP": "10.0.0.5"},
    });
    let new = patched(&old(), &running);
    let stored = reported::<PodRules>(&new, &old());
    assert_eq!(stored["spec"], old()["spec"]);
    assert_eq!(stored["metadata"].get("deletionTimestamp"), None, "a status deletes nothing");
    assert_eq!(stored["metadata"]["annotations"]["a"], "b");
    assert_eq!(stored["status"]["qosClass"], "BestEffort");
    assert_eq!(stored["status"]["podIPs"], json!([{"ip": "10.0.0.5"}]));
    assert_eq!(updated::<PodRules>(&new, &old())["status"], old()["status"]);
    let listed = patched(&old(), &json!({"status": {"podIPs": [{"ip": "10.0.0.6"}]}}));
    assert_eq!(reported::<PodRules>(&listed, &old())["status"]["podIP"], "10.0.0.6");
    let deleting =
        patched(&old(), &json!({"metadata": {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}}));
    let revived = patched(&deleting, &json!({"metadata": {"deletionTimestamp": null}}));
    assert_eq!(
        reported::<PodRules>(&revived, &deleting)["metadata"]["deletionTimestamp"],
        NOW,
        "nor revives"
    );
}

#[test]
fn status_rules() {
    let state = |state: Value| json!({"status": {"containerStatuses": [{"name": "main", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": state}]}});
    let pod = |policy: &str, code: i32| {
        let ended = state(json!({"terminated": {"exitCode": code}}));
        patched(&patched(&old(), &json!({"spec": {"restartPolicy": policy, "nodeName": "n"}})), &ended)
    };
    let revived = state(json!({"running": {}, "terminated": null}));
    const ENDED: &str =
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
    check_status::<PodRules>(&pod("Never", 1), &[("never", revived.clone(), &[ENDED])]);
    check_status::<PodRules>(&pod("OnFailure", 0), &[("on failure, ended well", revived.clone(), &[ENDED])]);
    check_status::<PodRules>(&pod("OnFailure", 1), &[("on failure", revived.clone(), &[])]);
    check_status::<PodRules>(&pod("Always", 0), &[("always", revived, &[])]);
    check_status::<PodRules>(
        &old(),
        &[
            (
                "class",
                json!({"status": {"qosClass": "Guaranteed"}}),
                &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
            ),
            (
                "condition",
                json!({"status": {"conditions": [{"type": "a b", "status": "True"}]}}),
                &["status.conditions[0].Type: Invalid value: \"a b\": name part must consist…"],
            ),
            ("nominated", json!({"status": {"nominatedNodeName": "n"}}), &[]),
            (
                "nominated nonsense",
                json!({"status": {"nominatedNodeName": "N"}}),
                &["status.nominatedNodeName: Invalid value: \"N\": a lowercase RFC 1123…"],
            ),
        ],
    );
    check_status::<PodRules>(
        &pod("Always", 0),
        &[(
            "nominated when bound",
            json!({"status": {"nominatedNodeName": "m"}}),
            &["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
        )],
    );
}

#[test]
fn reported_addresses() {
    const FAMILY: &str = "may specify no more than one IP for each IP family";
    let pod = |ips: &[&str]| {
        let list: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"status": {"podIPs": list}})
    };
    let host = |own: &str, first: &str| json!({"status": {"hostIP": own, "hostIPs": [{"ip": first}]}});
    check_status::<PodRules>(
        &old(),
        &[
            ("one", pod(&["10.0.0.1"]), &[]),
            ("one of each family", pod(&["fd00::1", "10.0.0.1"]), &[]),
            (
                "nonsense",
                pod(&["x"]),
                &[
                    "status.podIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                "two of a family",
                pod(&["10.0.0.1", "10.0.0.2"]),
                &[&format!(
                    "status.podIPs: Invalid value: [{{\"IP\":\"10.0.0.1\"}},{{\"IP\":\"10.0.0.2\"}}]: {FAMILY}"
                )],
            ),
            ("host", host("10.0.0.1", "10.0.0.1"), &[]),
            ("host without a list", json!({"status": {"hostIP": "10.0.0.1"}}), &[]),
            (
                "another host",
                host("10.0.0.1", "10.0.0.2"),
                &["status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`"],
            ),
            (
                "seen before it was made",
                json!({"status": {"observedGeneration": -1}}),
                &["status.observedGeneration: Invalid value: -1: must be a non-negative integer"],
            ),
        ],
    );
}

#[test]
fn a_gated_pod_may_become_choosier() {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let at = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let rule = |key: &str| json!({"key": key, "operator": "Exists"});
    let name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
    let required = |terms: Value| json!({"spec": {"affinity": {"nodeAffinity": {(REQUIRED): {"nodeSelectorTerms": terms}}}}});
    let plain = patched(&old(), &json!({"spec": {"nodeSelector": {"a": "b"}}}));
    const ONLY_MORE: &str = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    check_update::<PodRules>(
        &plain,
        &[
            ("one more label", json!({"spec": {"nodeSelector": {"c": "d"}}}), &[]),
            (
                "and the gate opens",
                json!({"spec": {"nodeSelector": {"c": "d"}, "schedulingGates": null}}),
                &[],
            ),
            (
                "another value",
                json!({"spec": {"nodeSelector": {"a": "d"}, "nodeName": "n"}}),
                &[&format!("spec.nodeSelector: Invalid value: {{\"a\":\"d\"}}: {ONLY_MORE}"), FIXED],
            ),
            (
                "no label",
                json!({"spec": {"nodeSelector": {"a": null}}}),
                &[&format!("spec.nodeSelector: Invalid value: {{}}: {ONLY_MORE}")],
            ),
            ("first terms", required(json!([{"matchExpressions": [rule("x")]}])), &[]),
            ("an empty affinity", json!({"spec": {"affinity": {}}}), &[FIXED]),
            ("to pods", json!({"spec": {"affinity": {"podAffinity": {}}}}), &[FIXED]),
        ],
    );
    let gated = patched(&plain, &required(json!([{"matchExpressions": [rule("x")]}, name])));
    let shown = r#"{"MatchExpressions":[{"Key":"y","Operator":"Exists","Values":null}],"MatchFields":null}"#;
    const NO_TERMS: &str = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
    check_update::<PodRules>(
        &gated,
        &[
            ("one more rule", required(json!([{"matchExpressions": [rule("x"), rule("y")]}, name])), &[]),
            (
                "of another kind",
                required(
                    json!([{"matchExpressions": [rule("x")], "matchFields": name["matchFields"]}, name]),
                ),
                &[],
            ),
            (
                "another rule",
                required(json!([{"matchExpressions": [rule("y")]}, name])),
                &[&format!(
                    "{at}[0]: Invalid value: {shown}: only additions are allowed (no mutations or deletions)"
                )],
            ),
            (
                "fewer terms",
                required(json!([{"matchExpressions": [rule("y")]}])),
                &[&format!("{at}: Invalid value: [{shown}]: {NO_TERMS}")],
            ),
            (
                "none",
                json!({"spec": {"affinity": null}}),
                &[&format!("{at}: Invalid value: null: {NO_TERMS}")],
            ),
        ],
    );
    let empty = patched(&plain, &required(json!([{}])));
    let first = required(json!([{"matchExpressions": [rule("y")]}]));
    let want =
        format!("{at}[0]: Invalid value: {shown}: only additions are allowed (no mutations or deletions)");
    check_update::<PodRules>(&empty, &[("a first rule would match more", first.clone(), &[&want])]);
    let open = patched(&plain, &json!({"spec": {"schedulingGates": null}}));
    let label = json!({"spec": {"nodeSelector": {"c": "d"}}});
    check_update::<PodRules>(&open, &[("label without a gate", label, &[FIXED]), ("term", first, &[FIXED])]);
}

#[test]
fn pictures_of_pods_stay_what_they_are() {
    let annotated =
        |value: Value| json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": value}}});
    const AT: &str = "metadata.annotations[kubernetes.io/config.mirror]";
    let unbound =
        format!("{AT}: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set");
    let added = format!("{AT}: Forbidden: may not add mirror pod annotation");
    let changed = format!("{AT}: Forbidden: may not remove or update mirror pod annotation");
    let cost = |cost: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
    let costly = |cost: &str| {
        format!(
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: {cost:?}: must be a 32bit integer"
        )
    };
    check_create::<PodRules>(
        &base(),
        &[
            ("picture", annotated(json!("x")), &[&unbound]),
            ("negative cost", cost("-05"), &[]),
            ("large cost", cost("2147483648"), &[&costly("2147483648")]),
            ("padded cost", cost("05"), &[&costly("05")]),
            ("signed cost", cost("+5"), &[&costly("+5")]),
            ("no cost", cost(""), &[&costly("")]),
        ],
    );
    let bound = created::<PodRules>(&patched(&base(), &json!({"spec": {"nodeName": "n"}})));
    let picture = patched(&bound, &annotated(json!("x")));
    check_create::<PodRules>(&picture, &[]);
    check_update::<PodRules>(&bound, &[("added", annotated(json!("x")), &[&added])]);
    check_status::<PodRules>(&bound, &[("added", annotated(json!("x")), &[&added])]);
    check_update::<PodRules>(
        &picture,
        &[("removed", annotated(Value::Null), &[&changed]), ("changed", annotated(json!("y")), &[&changed])],
    );
    check_status::<PodRules>(&picture, &[("removed", annotated(Value::Null), &[&changed])]);
}

/// What is stored leaves empty values out, and the same body with them changes nothing.
#[test]
fn spelt_out_empty_values_change_nothing() {
    let with = |values: Value| {
        let container = patched(&base()["spec"]["containers"][0], &values);
        patched(&base(), &json!({"spec": {"containers": [container]}}))
    };
    let body = with(json!({
        "livenessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 0},
        "ports": [{"containerPort": 1, "hostPort": 0, "hostIP": ""}],
        "stdin": false,
    }));
    let stored = created::<PodRules>(&body);
    assert_eq!(stored["spec"]["containers"][0]["livenessProbe"].get("initialDelaySeconds"), None);
    assert_errors("the same again", update_errors::<PodRules>(&body, &stored), &[]);
    let delayed = with(json!({"livenessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 1}}));
    assert_errors("another delay", update_errors::<PodRules>(&delayed, &stored), &[FIXED]);
}

/// In maps an empty text is a value.
#[test]
fn a_key_with_an_empty_value_is_a_change() {
    let open = patched(&old(), &json!({"spec": {"schedulingGates": null}}));
    check_update::<PodRules>(&open, &[("label", json!({"spec": {"nodeSelector": {"x": ""}}}), &[FIXED])]);
}
