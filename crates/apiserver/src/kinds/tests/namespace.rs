use serde_json::json;

use super::*;
use crate::kinds::namespace::NamespaceRules;

#[test]
fn filled_in() {
    let stored =
        created::<NamespaceRules>(&json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}));
    assert_eq!(stored["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
    assert_eq!(stored["status"], json!({"phase": "Active"}));
    assert_eq!(stored["spec"], json!({"finalizers": ["kubernetes"]}));
    let again = updated::<NamespaceRules>(&json!({"metadata": {"name": "a"}}), &stored);
    assert_eq!(again["spec"], stored["spec"], "an update changes neither finalizers");
    assert_eq!(again["status"], stored["status"], "nor the status");
    assert_eq!(again["metadata"]["labels"], stored["metadata"]["labels"], "and the label stays");
}

#[test]
fn rules() {
    check_create::<NamespaceRules>(
        &json!({"metadata": {"name": "a"}}),
        &[
            ("foreign finalizer", json!({"spec": {"finalizers": ["example.com/x"]}}), &[]),
            (
                "bare finalizer",
                json!({"spec": {"finalizers": ["x"]}}),
                &[
                    "spec.finalizers: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified",
                ],
            ),
        ],
    );
    let old = json!({"metadata": {"name": "a"}});
    check_status::<NamespaceRules>(
        &old,
        &[
            ("active", json!({"status": {"phase": "Active"}}), &[]),
            (
                "too early",
                json!({"status": {"phase": "Terminating"}}),
                &[
                    "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
                ],
            ),
            (
                "too late",
                json!({"metadata": {"deletionTimestamp": NOW}}),
                &[
                    "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
                ],
            ),
        ],
    );
}

#[test]
fn some_stay() {
    let refusal = |name: &str| {
        let object = json!({"metadata": {"name": name}});
        NamespaceRules::delete_refusal(&serde_json::from_value(object).unwrap())
    };
    assert_eq!(refusal("default"), Some("this namespace may not be deleted"));
    assert_eq!(refusal("kube-system"), Some("this namespace may not be deleted"));
    assert_eq!(refusal("mine"), None);
}

#[test]
fn shown() {
    let object = json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}});
    assert_eq!(header::<NamespaceRules>(), "NAME | STATUS | AGE");
    assert_eq!(row::<NamespaceRules>(&object), "a | Active | 10m");
    assert_eq!(labels::<NamespaceRules>(&object), ["status.phase=Active"]);
}
