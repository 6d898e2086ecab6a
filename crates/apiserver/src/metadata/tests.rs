use serde_json::{Value, json};

use super::*;
use crate::testing;

fn errors(metadata: Value) -> Vec<String> {
    let registry = testing::registry();
    let kind = registry.kind("", "v1", "configmaps").unwrap();
    validate(&json!({"metadata": metadata}), kind.as_ref()).iter().map(ToString::to_string).collect()
}

#[test]
fn rules() {
    assert!(
        errors(json!({"name": "a", "labels": {"x.io/a": "b"}, "annotations": {"X.io/A": "b c"}})).is_empty()
    );
    assert!(errors(json!({"name": "a", "finalizers": ["orphan", "x.io/y"]})).is_empty());
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    assert!(errors(json!({"name": "a", "ownerReferences": [owner]})).is_empty());
    let cases = [
        (json!({}), "metadata.name: Required value: name or generateName is required"),
        (
            json!({"name": "A"}),
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist",
        ),
        (
            json!({"name": "a", "labels": {"a": "b c"}}),
            "metadata.labels: Invalid value: \"b c\": a valid label must be",
        ),
        (
            json!({"name": "a", "annotations": {"a b": ""}}),
            "metadata.annotations: Invalid value: \"a b\": name part must",
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ),
        (
            json!({"name": "a", "ownerReferences": [owner, owner]}),
            "metadata.ownerReferences: Invalid value: ",
        ),
    ];
    for (metadata, want) in cases {
        let found = errors(metadata);
        assert!(found.len() == 1 && found[0].starts_with(want), "{found:?}");
    }
}

#[test]
fn what_an_update_may_not_change() {
    let old = json!({"metadata": {"name": "a", "uid": "1", "creationTimestamp": "t", "generation": 3, "resourceVersion": "9"}});
    let mut new = json!({"metadata": {"name": "a", "generation": 7, "selfLink": "x", "managedFields": []}});
    carry_over(&mut new, &old);
    assert_eq!(new, old);
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        let mut changed = old.clone();
        changed["metadata"][field] = "other".into();
        let found = validate_update(&changed, &old);
        assert_eq!(
            found[0].to_string(),
            format!("metadata.{field}: Invalid value: \"other\": field is immutable")
        );
    }
}
