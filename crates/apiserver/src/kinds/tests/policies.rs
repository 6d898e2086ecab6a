//! Priority classes, disruption budgets, attributes classes.

use serde_json::json;

use super::*;
use crate::kinds::poddisruptionbudget::PodDisruptionBudgetRules;
use crate::kinds::priorityclass::{PriorityClassRules, system_classes};
use crate::kinds::volumeattributesclass::VolumeAttributesClassRules;

#[test]
fn priority_classes() {
    let base = json!({"metadata": {"name": "high"}, "value": 1000});
    assert_eq!(created::<PriorityClassRules>(&base)["preemptionPolicy"], "PreemptLowerPriority");
    system_classes()
        .for_each(|class| assert_errors("system", create_errors::<PriorityClassRules>(&class), &[]));
    check_create::<PriorityClassRules>(
        &base,
        &[
            (
                "unknown system class",
                json!({"metadata": {"name": "system-x"}}),
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
                ],
            ),
            (
                "system class with another value",
                json!({"metadata": {"name": "system-node-critical"}}),
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000",
                ],
            ),
            (
                "system class as default",
                json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000, "globalDefault": true}),
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: globalDefault of system-node-critical PriorityClass must be false",
                ],
            ),
            (
                "too high, bad policy",
                json!({"value": 1_000_000_001, "preemptionPolicy": "q"}),
                &[
                    "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
                    "preemptionPolicy: Unsupported value: \"q\": supported values: \"PreemptLowerPriority\", \"Never\"",
                ],
            ),
        ],
    );
    check_update::<PriorityClassRules>(
        &base,
        &[
            (
                "fixed",
                json!({"value": 2, "preemptionPolicy": "Never"}),
                &[
                    "value: Forbidden: may not be changed in an update.",
                    "preemptionPolicy: Invalid value: \"Never\": field is immutable",
                ],
            ),
            ("the rest", json!({"globalDefault": true, "description": "x"}), &[]),
        ],
    );
    assert_eq!(header::<PriorityClassRules>(), "NAME | VALUE | GLOBAL-DEFAULT | AGE | PREEMPTIONPOLICY");
    assert_eq!(row::<PriorityClassRules>(&base), "high | 1000 | false | 10m | PreemptLowerPriority");
}

#[test]
fn disruption_budgets() {
    let base = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    check_create::<PodDisruptionBudgetRules>(
        &base,
        &[
            (
                "both",
                json!({"spec": {"maxUnavailable": "10%"}}),
                &[
                    "spec: Invalid value: {\"MaxUnavailable\":\"10%\",\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                ],
            ),
            (
                "negative",
                json!({"spec": {"minAvailable": -1}}),
                &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "more than all",
                json!({"spec": {"minAvailable": "101%"}}),
                &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                "no percentage",
                json!({"spec": {"minAvailable": "x"}}),
                &[
                    "spec.minAvailable: Invalid value: \"x\": a valid percent string must be a numeric string…",
                ],
            ),
            (
                "policy",
                json!({"spec": {"unhealthyPodEvictionPolicy": "x"}}),
                &[
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"x\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
                ],
            ),
        ],
    );
    let condition =
        json!({"type": "A B", "status": "Maybe", "reason": "1", "message": "", "lastTransitionTime": NOW});
    check_status::<PodDisruptionBudgetRules>(
        &base,
        &[(
            "status",
            json!({"status": {"disruptionsAllowed": -1, "conditions": [condition]}}),
            &[
                "status.conditions[0].type: Invalid value: \"A B\": name part must consist…",
                "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                "status.conditions[0].reason: Invalid value: \"1\": a condition reason must start…",
                "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
            ],
        )],
    );
    assert_eq!(row::<PodDisruptionBudgetRules>(&base), "b | 1 | N/A | 0 | 10m");
}

#[test]
fn attributes_classes() {
    let base = json!({"metadata": {"name": "gold"}, "driverName": "D.x", "parameters": {"iops": "1"}});
    check_create::<VolumeAttributesClassRules>(
        &base,
        &[(
            "empty",
            json!({"driverName": "", "parameters": null}),
            &[
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        )],
    );
    check_update::<VolumeAttributesClassRules>(
        &base,
        &[(
            "fixed",
            json!({"driverName": "y", "parameters": {"iops": null}}),
            &[
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        )],
    );
    assert_eq!(row::<VolumeAttributesClassRules>(&base), "gold | D.x | 10m");
}
