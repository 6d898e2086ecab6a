//! What a rule allows, what it covers.

use serde_json::{Value, json};

use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::auth::rbac::Rule;

fn rule(value: Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

/// `verb group resource[/sub] [name]`, `-` for the core group; or `verb /path`.
fn asked(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        [verb, path] => Attributes::Path { verb: verb.into(), path: path.into() },
        [verb, group, resource, ref name @ ..] => {
            let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
            Attributes::Resource(ResourceAttributes {
                verb: verb.into(),
                group: if group == "-" { "" } else { group }.into(),
                resource: resource.into(),
                subresource: sub.into(),
                name: name.first().copied().unwrap_or_default().into(),
                ..ResourceAttributes::default()
            })
        }
        _ => panic!("{text}"),
    }
}

#[test]
fn allows() {
    let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
    let any_scale = json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]});
    let named = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]});
    let starred = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/*"]});
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"], "apiGroups": null});
    let any_path = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let table = [
        (&pods, "get - pods x", true),
        (&pods, "list - pods", true),
        (&pods, "get - pods/log x", true),
        (&pods, "get - pods/status x", false),
        (&pods, "delete - pods x", false),
        (&pods, "get apps pods x", false),
        (&pods, "get /pods", false),
        (&any_scale, "update apps deployments/scale x", true),
        (&any_scale, "get apps deployments x", false),
        (&any_scale, "get apps scale x", false),
        (&named, "get - secrets a", true),
        (&named, "list - secrets a", true),
        (&named, "list - secrets", false),
        (&named, "get - secrets b", false),
        // As upstream has it: a star stands only before the slash.
        (&starred, "get - pods/log x", false),
        (&starred, "get - pods x", false),
        (&all, "escalate rbac.authorization.k8s.io roles/x y", true),
        (&all, "get /api", false),
        (&paths, "get /healthz", true),
        (&paths, "get /healthz/ping", false),
        (&paths, "get /api/v1", true),
        (&paths, "get /api", false),
        (&paths, "post /healthz", false),
        (&paths, "get - pods", false),
        (&any_path, "delete /anything", true),
        (&any_path, "get - pods", false),
    ];
    for (own, text, want) in table {
        assert_eq!(rule(own.clone()).allows(&asked(text)), want, "{own}: {text}");
    }
}

#[test]
fn covers() {
    let read = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]});
    let named =
        json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]});
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/a*"]});
    let part = |verb: &str, group: &str, resource: &str, names: &[&str]| json!({"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    let path = |verb: &str, path: &str| json!({"verbs": [verb], "nonResourceURLs": [path]});
    let table = [
        (&read, part("get", "", "pods", &[]), true),
        (&read, part("get", "", "pods", &["x"]), true),
        (&read, part("*", "", "pods", &[]), false),
        (&read, part("get", "*", "pods", &[]), false),
        (&read, part("get", "", "*", &[]), false),
        (&read, part("get", "", "jobs/scale", &[]), true),
        (&read, part("get", "", "pods/log", &[]), false),
        (&named, part("delete", "", "pods", &["a"]), true),
        (&named, part("delete", "", "pods", &["c"]), false),
        (&named, part("delete", "", "pods", &[]), false),
        (&all, part("*", "*", "*", &[]), true),
        (&all, path("get", "/a"), false),
        (&paths, path("get", "/abc"), true),
        (&paths, path("get", "/b"), false),
        (&paths, path("post", "/abc"), false),
    ];
    for (own, part, want) in table {
        assert_eq!(rule(own.clone()).covers(&rule(part.clone())), want, "{own}: {part}");
    }
}

#[test]
fn broken_down_and_printed() {
    let whole = rule(json!({
        "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"],
        "nonResourceURLs": ["/x"],
    }));
    let parts: Vec<String> = whole.broken_down().map(|part| part.compact()).collect();
    assert_eq!((parts.len(), whole.size()), (6, 6));
    assert_eq!(parts[0], r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#);
    assert_eq!(parts[4], r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#);
    assert!(whole.broken_down().take(4).all(|part| whole.covers(&part)));
}

#[test]
fn covers_whole() {
    let own = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes"]});
    let odd = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "nonResourceURLs": ["*"]});
    let table = [
        (&own, own.clone(), true),
        (&own, json!({"verbs": ["list", "get"], "apiGroups": [""], "resources": ["nodes"]}), true),
        (&own, json!({"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["nodes"]}), false),
        (&own, json!({"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods"]}), false),
        (&own, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"]}), false),
        (
            &own,
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
            true,
        ),
        // Its path has no name, which the rule that has one does not cover.
        (&odd, odd.clone(), false),
    ];
    for (own, other, want) in table {
        let (own, other) = (rule(own.clone()), rule(other));
        assert_eq!(own.covers_whole(&other), want, "{other:?}");
        let parts_covered = other.broken_down().all(|part| own.covers(&part));
        assert!(!want || parts_covered, "{other:?}");
    }
}

#[test]
fn a_rule_of_very_many_parts() {
    let many = |letter: &str| -> Vec<String> { (0..1000).map(|n| format!("{letter}{n}")).collect() };
    let whole = rule(json!({
        "verbs": many("v"), "apiGroups": many("g"), "resources": many("r"), "resourceNames": many("n"),
    }));
    assert_eq!(whole.size(), 1_000_000_000_000);
    assert_eq!(
        whole.broken_down().next().unwrap().compact(),
        r#"{APIGroups:["g0"], Resources:["r0"], ResourceNames:["n0"], Verbs:["v0"]}"#
    );
}
