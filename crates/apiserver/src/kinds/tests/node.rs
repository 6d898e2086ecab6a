use serde_json::json;

use super::*;
use crate::kinds::node::NodeRules;

fn base() -> Value {
    json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p"}, "status": {"capacity": {"cpu": "4000m", "memory": "1024Mi"}}})
}

#[test]
fn a_new_node_keeps_its_status_and_takes_no_pods() {
    let stored = created::<NodeRules>(&base());
    assert_eq!(stored["status"]["capacity"], json!({"cpu": "4", "memory": "1Gi"}));
    assert_eq!(stored["status"]["allocatable"], stored["status"]["capacity"]);
    assert_eq!(
        stored["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    assert_eq!(created::<NodeRules>(&stored)["spec"]["taints"], stored["spec"]["taints"], "only once");
    assert_eq!(
        updated::<NodeRules>(&json!({"metadata": {"name": "n"}}), &stored)["status"],
        stored["status"]
    );
    let reported = reported::<NodeRules>(&json!({"metadata": {"name": "n"}, "status": {}}), &stored);
    assert_eq!((&reported["spec"], reported["status"].get("capacity")), (&stored["spec"], None));
}

#[test]
fn rules() {
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    check_create::<NodeRules>(
        &base(),
        &[
            (
                "effect",
                taints(json!([{"key": "a", "effect": "Never"}])),
                &[
                    "metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
            ("no effect", taints(json!([{"key": "a"}])), &["metadata.taints[0].effect: Required value"]),
            (
                "key",
                taints(json!([{"key": "a b", "effect": "NoExecute"}])),
                &["metadata.taints[0].key: Invalid value: \"a b\": name part must consist…"],
            ),
            (
                "value",
                taints(json!([{"key": "a", "value": "b c", "effect": "NoExecute"}])),
                &["metadata.taints[0].value: Invalid value: \"b c\": a valid label must be…"],
            ),
            (
                "twice",
                taints(json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}])),
                &[
                    "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                ],
            ),
            (
                "two effects",
                taints(json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}])),
                &[],
            ),
            (
                "capacity",
                json!({"status": {"capacity": {"cpu": "-1"}, "allocatable": {}}}),
                &["status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
        ],
    );
    check_update::<NodeRules>(
        &base(),
        &[
            (
                "range",
                json!({"spec": {"podCIDRs": ["10.0.1.0/24"]}}),
                &["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"],
            ),
            (
                "provider",
                json!({"spec": {"providerID": "q"}}),
                &[
                    "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
                ],
            ),
            ("cordon", json!({"spec": {"unschedulable": true}}), &[]),
        ],
    );
    let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
    check_status::<NodeRules>(
        &base(),
        &[
            (
                "address twice",
                json!({"status": {"addresses": [address, address]}}),
                &["status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"10.0.0.1\"}"],
            ),
            (
                "allocatable",
                json!({"status": {"allocatable": {"cpu": "-1"}}}),
                &["status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(
        header::<NodeRules>(),
        "NAME | STATUS | ROLES | AGE | VERSION | [INTERNAL-IP] | [EXTERNAL-IP] | [OS-IMAGE] | [KERNEL-VERSION] | [CONTAINER-RUNTIME]"
    );
    assert_eq!(
        row::<NodeRules>(&base()),
        "n | Unknown | <none> | 10m |  | <none> | <none> | <unknown> | <unknown> | <unknown>"
    );
    let full = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Debian", "kernelVersion": "6.1", "architecture": "amd64", "containerRuntimeVersion": "x://1"},
        },
    });
    let full = patched(&base(), &full);
    assert_eq!(
        row::<NodeRules>(&full),
        "n | NotReady,SchedulingDisabled | control-plane,worker | 10m | v1.36.3 | 10.0.0.1 | 1.2.3.4 | Debian | 6.1 (amd64) | x://1"
    );
    let ready = patched(&base(), &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    assert!(row::<NodeRules>(&ready).starts_with("n | Ready | "));
    assert_eq!(labels::<NodeRules>(&base()), ["spec.unschedulable=false"]);
    assert_eq!(labels::<NodeRules>(&full), ["spec.unschedulable=true"]);
}
