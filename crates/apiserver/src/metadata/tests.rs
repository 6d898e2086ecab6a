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
    let other =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "v", "controller": true});
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
            json!({"name": "a", "ownerReferences": [owner, other]}),
            r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true},{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"v","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/p and ReplicaSet/r"#,
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}]}),
            "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
        ),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]}),
            r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: /v1, Kind=Event is disallowed from being an owner"#,
        ),
        (
            json!({"name": "a", "finalizers": ["x.io/y", "foo"]}),
            "metadata.finalizers[1]: Invalid value: \"foo\": name is neither a standard finalizer name nor is it fully qualified",
        ),
        (
            json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
        ),
    ];
    for (metadata, want) in cases {
        let found = errors(metadata);
        assert!(found.len() == 1 && found[0].starts_with(want), "{found:?}");
    }
}

#[test]
fn only_kinds_that_count_begin_with_one() {
    let table = [
        (true, json!(7), json!(1)),
        (true, json!(null), json!(1)),
        (false, json!(7), json!(7)),
        (false, json!(0), json!(null)),
        (false, json!(null), json!(null)),
    ];
    for (counts, sent, expected) in table {
        let mut object = json!({"metadata": {"name": "a", "generation": sent}});
        fill_new(&mut object, "uid".into(), jiff::Timestamp::UNIX_EPOCH, counts);
        assert_eq!(object["metadata"]["generation"], expected, "{counts} {sent}");
    }
}

#[test]
fn what_an_update_may_not_change() {
    let old = json!({"metadata": {"name": "a", "uid": "1", "creationTimestamp": "t", "generation": 3, "resourceVersion": "9"}});
    let mut new = json!({"metadata": {"name": "a", "generation": 7, "selfLink": "x", "managedFields": []}});
    carry_over(&mut new, &old);
    assert_eq!(new, old);
    new["metadata"]["creationTimestamp"] = "other".into();
    carry_over(&mut new, &old);
    assert_eq!(new, old, "the time of birth is not even refused");
    let dying = json!({"metadata": {"name": "a", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 5}});
    let mut new = json!({"metadata": {"name": "a", "deletionTimestamp": "other"}});
    carry_over(&mut new, &dying);
    assert_eq!(new, dying, "nor is the time of death");
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

/// Upstream goes from owner to owner, so the second controller is told before what is wrong with a third owner.
#[test]
fn complaints_follow_the_owners() {
    let owner = |kind: &str, name: &str, controller: bool| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": controller});
    let owners = json!([owner("Pod", "a", true), owner("Pod", "b", true), owner("Event", "c", false)]);
    let found: Vec<String> = owners::owner_errors(&owners).iter().map(|error| error.detail.clone()).collect();
    let ends = ["in references for Pod/a and Pod/b", "/v1, Kind=Event is disallowed from being an owner"];
    assert_eq!(found.len(), ends.len(), "{found:?}");
    assert!(found.iter().zip(ends).all(|(found, end)| found.ends_with(end)), "{found:?}");
}

#[test]
fn references_that_stand_twice() {
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let (a, b, c) = (owner("a", "1"), owner("b", "2"), owner("c", "2"));
    let mut object = json!({"metadata": {"ownerReferences": [a, a, b, c, a]}});
    let warning = fold_owners(&mut object, "").unwrap();
    assert!(warning.ends_with("duplicate UID(s) observed: 1, 1"), "{warning}");
    assert_eq!(object["metadata"]["ownerReferences"], json!([a, b, c]));
    assert_eq!(fold_owners(&mut object, ""), None);
}

/// Each complaint repeats the whole list, so that all together would take gigabytes.
#[test]
fn many_controllers_are_not_all_told() {
    let owner = |name: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": name.to_string(), "uid": name.to_string(), "controller": true});
    let errors = |count: usize| owners::owner_errors(&(0..count).map(owner).collect());
    assert_eq!(errors(100).len(), 99, "upstream tells all of a few");
    let told: usize = errors(10_000).iter().map(|error| error.detail.len()).sum();
    assert!((1..8 << 20).contains(&told), "{told}");
}
