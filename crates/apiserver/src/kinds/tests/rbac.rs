use serde_json::json;

use super::*;
use crate::kinds::rbac::{ClusterRoleBindingRules, ClusterRoleRules, RoleBindingRules, RoleRules};

fn role() -> Value {
    json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
}

fn binding() -> Value {
    json!({
        "metadata": {"name": "readers"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [
            {"kind": "User", "name": "anna"},
            {"kind": "Group", "name": "staff"},
            {"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"},
        ],
    })
}

#[test]
fn what_a_role_allows() {
    let url = json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    let mixed = json!([{"nonResourceURLs": ["/x"], "verbs": ["get"], "resources": ["a"]}]);
    let cluster: Table<'_> = &[
        ("nothing", json!({"rules": null}), &[]),
        (
            "no verbs",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            &["rules[0].verbs: Required value: verbs must contain at least one value"],
        ),
        (
            "no resources",
            json!({"rules": [{"verbs": ["get"]}]}),
            &[
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            "both",
            json!({"rules": mixed}),
            &[
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
            ],
        ),
        ("a path", json!({"rules": url}), &[]),
        (
            "aggregates nothing",
            json!({"aggregationRule": {}}),
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        ),
        (
            "bad selector",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]}}),
            &[
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"x\": not a valid selector operator",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        ),
    ];
    check_create::<ClusterRoleRules>(&role(), cluster);
    check_create::<RoleRules>(
        &role(),
        &[(
            "a path",
            json!({"rules": url}),
            &[
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
            ],
        )],
    );
    for (name, want) in [
        ("system:node", vec![]),
        ("..", vec!["may not be '..'"]),
        ("a/b%", vec!["may not contain '/'", "may not contain '%'"]),
    ] {
        assert_eq!(RoleRules::name_errors(name), want);
    }
}

#[test]
fn who_is_bound_to_what() {
    let stored = created::<RoleBindingRules>(&binding());
    assert_eq!(stored["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    let groups: Vec<&Value> = stored["subjects"].as_array().unwrap().iter().map(|s| &s["apiGroup"]).collect();
    assert_eq!(
        groups,
        [&json!("rbac.authorization.k8s.io"), &json!("rbac.authorization.k8s.io"), &Value::Null]
    );
    let table: Table<'_> = &[
        (
            "role",
            json!({"roleRef": {"kind": "X", "name": "", "apiGroup": "y"}}),
            &[
                "roleRef.apiGroup: Unsupported value: \"y\": supported values: \"rbac.authorization.k8s.io\"",
                "roleRef.kind: Unsupported value: \"X\": supported values: \"Role\", \"ClusterRole\"",
                "roleRef.name: Required value",
            ],
        ),
        (
            "subjects",
            json!({"subjects": [{"kind": "User"}, {"kind": "Q", "name": "a"}, {"kind": "ServiceAccount", "name": "a b", "apiGroup": "x"}]}),
            &[
                "subjects[0].name: Required value",
                "subjects[1].kind: Unsupported value: \"Q\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                "subjects[2].name: Invalid value: \"a b\": a lowercase RFC 1123 subdomain…",
                "subjects[2].apiGroup: Unsupported value: \"x\": supported values: \"\"",
            ],
        ),
        ("nobody", json!({"subjects": null}), &[]),
    ];
    check_create::<RoleBindingRules>(&binding(), table);
    check_create::<ClusterRoleBindingRules>(
        &binding(),
        &[
            (
                "a role of one namespace",
                json!({"roleRef": {"kind": "Role"}}),
                &["roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\""],
            ),
            (
                "an account of no namespace",
                json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
                &["subjects[0].namespace: Required value"],
            ),
        ],
    );
}

#[test]
fn a_binding_keeps_its_role() {
    let table: Table<'_> = &[
        (
            "role",
            json!({"roleRef": {"name": "writer"}}),
            &[
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"writer\"}: cannot change roleRef",
            ],
        ),
        ("subjects", json!({"subjects": null}), &[]),
    ];
    check_update::<RoleBindingRules>(&binding(), table);
    check_update::<ClusterRoleBindingRules>(&binding(), table);
}

#[test]
fn shown() {
    let want = "NAME | ROLE | AGE | [USERS] | [GROUPS] | [SERVICEACCOUNTS]";
    assert_eq!(header::<RoleBindingRules>(), want);
    let want = "readers | ClusterRole/reader | 10m | anna | staff | kube-system/default";
    assert_eq!(row::<RoleBindingRules>(&binding()), want);
    assert_eq!(row::<ClusterRoleBindingRules>(&binding()), want);
}
