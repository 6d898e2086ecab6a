//! Kinds of the table: what single rows add.

use serde_json::json;

use super::*;
use crate::kinds::register::register;
use crate::registry::{Kind, Registry};

fn with<T>(group: &str, version: &str, plural: &str, use_kind: impl FnOnce(&dyn Kind) -> T) -> T {
    let mut registry = Registry::new();
    register(&mut registry);
    use_kind(registry.kind(group, version, plural).unwrap().as_ref())
}

fn stored(kind: &dyn Kind, object: &Value) -> (Value, Vec<String>) {
    let decoded = kind.decode(object).unwrap().object;
    let prepared = kind.prepare_create(decoded, now()).unwrap();
    (prepared.object, prepared.errors.iter().map(ToString::to_string).collect())
}

#[test]
fn filled_in() {
    let table = [
        (
            "",
            "v1",
            "endpoints",
            json!({"subsets": [{"ports": [{"port": 1}]}]}),
            "/subsets/0/ports/0/protocol",
            json!("TCP"),
        ),
        (
            "discovery.k8s.io",
            "v1",
            "endpointslices",
            json!({"ports": [{}]}),
            "/ports/0",
            json!({"name": "", "protocol": "TCP"}),
        ),
        (
            "",
            "v1",
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]}}),
            "/spec/limits/0/defaultRequest",
            json!({"cpu": "2", "memory": "1Gi"}),
        ),
        ("autoscaling", "v2", "horizontalpodautoscalers", json!({"spec": {}}), "/spec/minReplicas", json!(1)),
        (
            "resource.k8s.io",
            "v1",
            "resourceclaims",
            json!({"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}}),
            "/spec/devices/requests/0/exactly",
            json!({"deviceClassName": "", "allocationMode": "ExactCount", "count": 1}),
        ),
    ];
    for (group, version, plural, object, path, want) in table {
        let (stored, errors) = with(group, version, plural, |kind| stored(kind, &object));
        assert_eq!((stored.pointer(path), errors), (Some(&want), vec![]), "{plural}");
    }
}

#[test]
fn unknown_fields_are_dropped_and_named_and_the_status_is_its_own() {
    with("", "v1", "resourcequotas", |kind| {
        let sent = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": 5}, "foo": 1}, "status": {"used": {"pods": "1"}}});
        let decoded = kind.decode(&sent).unwrap();
        assert_eq!(decoded.unknown, ["spec.foo"]);
        let stored = kind.prepare_create(decoded.object, now()).unwrap().object;
        assert_eq!((&stored["spec"], &stored["status"]), (&json!({"hard": {"pods": "5"}}), &json!({})));
        let mut report = stored.clone();
        (report["spec"], report["status"]) = (json!({}), json!({"used": {"pods": "2"}}));
        let reported = kind.prepare_update(report.clone(), &stored, Part::Status, now()).unwrap().object;
        assert_eq!((&reported["spec"], &reported["status"]), (&stored["spec"], &report["status"]));
        let updated = kind.prepare_update(report, &stored, Part::Main, now()).unwrap().object;
        assert_eq!((&updated["spec"], &updated["status"]), (&json!({}), &stored["status"]));
    });
}

#[test]
fn refused() {
    let (_, errors) =
        with("apps", "v1", "controllerrevisions", |kind| stored(kind, &json!({"revision": -1})));
    assert_eq!(
        errors,
        [
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data is mandatory"
        ]
    );
    let two =
        json!({"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 1}, {"port": 2, "name": "b"}]}]});
    let (_, errors) = with("", "v1", "endpoints", |kind| stored(kind, &two));
    assert_eq!(errors.len(), 2, "{errors:?}");
    with("resource.k8s.io", "v1", "resourceclaims", |kind| {
        let (old, _) =
            stored(kind, &json!({"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}}));
        let mut new = old.clone();
        new["spec"]["devices"] = json!({});
        let errors = kind.prepare_update(new, &old, Part::Main, now()).unwrap().errors;
        let want = "spec: Invalid value: {\"Devices\":{\"Requests\":null,\"Constraints\":null,\"Config\":null}}: field is immutable";
        assert_eq!(errors[0].to_string(), want);
    });
}

#[test]
fn shown() {
    let created = json!({"creationTimestamp": CREATED, "name": "x"});
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true});
    let table = [
        (
            "",
            "v1",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 1}, {"port": 2}]}]}),
            json!(["x", "1.1.1.1:1,[::1]:1,1.1.1.1:2 + 1 more...", "10m"]),
        ),
        (
            "discovery.k8s.io",
            "v1",
            "endpointslices",
            json!({"addressType": "IPv4"}),
            json!(["x", "IPv4", "<unset>", "<unset>", "10m"]),
        ),
        (
            "",
            "v1",
            "resourcequotas",
            json!({"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}}),
            json!(["x", "pods: 1/5", "limits.cpu: 0/2", "10m"]),
        ),
        (
            "apps",
            "v1",
            "controllerrevisions",
            json!({"metadata": {"ownerReferences": [owner]}, "revision": 3}),
            json!(["x", "statefulset.apps/s", 3, "10m"]),
        ),
        (
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5, "minReplicas": 1, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]}}),
            json!(["x", "Deployment/d", "cpu: <unknown>/80%", "1", 5, 0, "10m"]),
        ),
        (
            "resource.k8s.io",
            "v1",
            "resourceclaims",
            json!({"status": {"allocation": {}, "reservedFor": [{}]}}),
            json!(["x", "allocated,reserved", "10m"]),
        ),
        (
            "resource.k8s.io",
            "v1",
            "resourceslices",
            json!({"spec": {"driver": "d", "pool": {"name": "p"}}}),
            json!(["x", "", "d", "p", "10m"]),
        ),
    ];
    for (group, version, plural, object, want) in table {
        let object = patched(&object, &json!({"metadata": created}));
        let cells = with(group, version, plural, |kind| {
            let cells = kind.cells(object.to_string().as_bytes(), now()).unwrap();
            assert_eq!(cells.len(), kind.info().columns.len(), "{plural}");
            cells
        });
        assert_eq!(Value::from(cells), want, "{plural}");
    }
}
