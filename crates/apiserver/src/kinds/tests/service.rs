use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::admission::{Admission, AdmissionNotes, AdmissionRequest, Lister, Operation};
use crate::auth::User;
use crate::kinds::admission::ServiceAddresses;
use crate::kinds::service::ServiceRules;

fn base() -> Value {
    json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

#[test]
fn filled_in() {
    let stored = created::<ServiceRules>(&base())["spec"].clone();
    let want = json!({
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"a": "b"}, "type": "ClusterIP",
        "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
    });
    assert_eq!(stored, want);
    let balanced = created::<ServiceRules>(&patched(
        &base(),
        &spec(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"})),
    ));
    assert_eq!(balanced["spec"]["externalTrafficPolicy"], "Cluster");
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn rules() {
    check_create::<ServiceRules>(
        &base(),
        &[
            ("no ports", spec(json!({"ports": null})), &["spec.ports: Required value"]),
            ("headless without ports", spec(json!({"ports": null, "clusterIP": "None"})), &[]),
            (
                "ports",
                spec(
                    json!({"ports": [{"port": 0}, {"port": 80, "name": "A", "targetPort": "1", "nodePort": 5}]}),
                ),
                &[
                    "spec.ports[0].name: Required value",
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[1].name: Invalid value: \"A\": a lowercase RFC 1123 label…",
                    "spec.ports[1].targetPort: Invalid value: \"1\": must contain at least one letter (a-z)",
                    "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                ],
            ),
            (
                "twice",
                spec(json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})),
                &[
                    "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
                ],
            ),
            (
                "an alias",
                spec(json!({"type": "ExternalName", "clusterIP": "1.2.3.4"})),
                &[
                    "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                    "spec.externalName: Required value",
                ],
            ),
            (
                "for outside only",
                spec(json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 5})),
                &[
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                    "spec.healthCheckNodePort: Invalid value: 5: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                ],
            ),
        ],
    );
}

#[test]
fn what_was_handed_out_stays() {
    let old = patched(
        &base(),
        &spec(
            json!({"clusterIP": "10.96.0.5", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}),
        ),
    );
    let blind = patched(&base(), &spec(json!({"type": "NodePort"})));
    let kept = updated::<ServiceRules>(&blind, &old);
    assert_eq!(
        (&kept["spec"]["clusterIP"], &kept["spec"]["ports"][0]["nodePort"]),
        (&json!("10.96.0.5"), &json!(30001))
    );
    let alias = updated::<ServiceRules>(
        &patched(&old, &spec(json!({"type": "ExternalName", "externalName": "x.y"}))),
        &old,
    );
    assert_eq!(
        (&alias["spec"]["clusterIP"], &alias["spec"]["ports"][0]["nodePort"]),
        (&Value::Null, &Value::Null)
    );
    check_update::<ServiceRules>(
        &old,
        &[(
            "another address",
            spec(json!({"clusterIP": "10.96.0.6"})),
            &["spec.clusterIPs[0]: Invalid value: [\"10.96.0.6\"]: may not change once set"],
        )],
    );
    let shown = row::<ServiceRules>(&old);
    assert_eq!(shown, "s | NodePort | 10.96.0.5 | <none> | 80:30001/TCP | 10m | a=b");
    assert_eq!(labels::<ServiceRules>(&old), ["spec.clusterIP=10.96.0.5", "spec.type=NodePort"]);
}

struct Services(BTreeMap<&'static str, Value>);

impl Lister for Services {
    fn get(&self, _: &str, _: &str, _: &str, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }
    fn list(&self, _: &str, _: &str) -> Vec<Value> {
        self.0.values().cloned().collect()
    }
}

#[test]
fn addresses_are_handed_out_once() {
    let (user, notes) = (User::server(), AdmissionNotes::default());
    let request = |name| AdmissionRequest {
        operation: Operation::Create,
        group: "",
        plural: "services",
        kind: "Service",
        subresource: "",
        namespace: "default",
        name,
        old: None,
        user: &user,
        now: now(),
        notes: &notes,
    };
    let taken = json!({"metadata": {"name": "old"}, "spec": {"clusterIPs": ["10.96.0.2"], "ports": [{"nodePort": 30000}]}});
    let services = Services(BTreeMap::from([("old", taken)]));
    let plugin = ServiceAddresses::default();
    let admitted = |mut object: Value| {
        plugin.admit(&request("s"), &mut object, &services).unwrap();
        object["spec"].clone()
    };
    let mut seen = BTreeSet::from([("10.96.0.2".to_owned(), 30000)]);
    for _ in 0..2 {
        let given = admitted(patched(&base(), &spec(json!({"type": "NodePort"}))));
        let address = given["clusterIP"].as_str().unwrap().to_owned();
        assert!(address.starts_with("10.96."), "{address}");
        let port = given["ports"][0]["nodePort"].as_u64().unwrap();
        assert!((30_000..32_768).contains(&port), "{port}");
        assert!(
            seen.iter().all(|(other, taken)| *other != address && *taken != port),
            "not again, although nothing was stored yet"
        );
        seen.insert((address, port));
    }
    let others: BTreeSet<String> = ["a", "b", "c"]
        .into_iter()
        .map(|first| {
            let mut object = base();
            ServiceAddresses::default().admit(&request(first), &mut object, &services).unwrap();
            object["spec"]["clusterIP"].to_string()
        })
        .collect();
    assert_eq!(others.len(), 3, "servers of one store do not begin at the same address: {others:?}");
    let headless = admitted(patched(
        &base(),
        &spec(json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": null})),
    ));
    assert_eq!(
        (&headless["clusterIP"], &headless["ipFamilyPolicy"]),
        (&json!("None"), &json!("RequireDualStack"))
    );
    let mut misplaced = patched(
        &base(),
        &spec(json!({"clusterIP": "elsewhere", "clusterIPs": ["elsewhere"], "type": "Magic"})),
    );
    let refused = plugin.admit(&request("s"), &mut misplaced, &services).unwrap_err().message;
    let want = "Service \"s\" is invalid: spec.clusterIPs[0]: Invalid value: \"elsewhere\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    assert_eq!(refused, want);
    let refused = |patch: Value| {
        let object = patched(&base(), &spec(patch));
        plugin.validate(&request("s"), &object, &services).unwrap_err().message
    };
    let table = [
        (
            json!({"clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.2\"]: failed to allocate IP 10.96.0.2: provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}),
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 30000}]}),
            "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 1}]}),
            "spec.ports[0].nodePort: Invalid value: 1: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ];
    for (patch, want) in table {
        assert_eq!(refused(patch), format!("Service \"s\" is invalid: {want}"));
    }
}
