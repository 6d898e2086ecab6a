//! Questions and answers, as a real server gives them.

use http::Method;
use serde_json::{Value, json};

use crate::auth::tests::{RBAC, Who, binding, done, get, masters, post, send, server, told};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

#[tokio::test]
async fn may_somebody() {
    let server = server().await;
    let joe = Who::named("joe", &[]);
    let own = format!("{REVIEWS}/selfsubjectaccessreviews");
    let any = format!("{REVIEWS}/subjectaccessreviews");
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    let viewer = binding("RoleBinding", "v", "ClusterRole/view", "User/ann");
    done(post(&server, &masters(), &format!("{RBAC}/namespaces/default/rolebindings"), viewer).await);
    let pods = |namespace: &str| json!({"verb": "list", "resource": "pods", "namespace": namespace});
    let discovery = r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#;
    let scheduler = r#"RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole "system:kube-scheduler" to User "system:kube-scheduler""#;
    let view = r#"RBAC: allowed by RoleBinding "v/default" of ClusterRole "view" to User "ann""#;
    let node = "node 'n' cannot read all nodes, only its own Node object";
    let table = [
        (&own, masters(), json!({"resourceAttributes": pods("")}), json!({"allowed": true})),
        (&own, joe.clone(), json!({"resourceAttributes": pods("")}), json!({"allowed": false})),
        (
            &own,
            joe,
            json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}}),
            json!({"allowed": true, "reason": discovery}),
        ),
        (
            &any,
            masters(),
            json!({"user": "system:kube-scheduler", "resourceAttributes": pods("")}),
            json!({"allowed": true, "reason": scheduler}),
        ),
        (
            &local,
            masters(),
            json!({"user": "ann", "resourceAttributes": pods("default")}),
            json!({"allowed": true, "reason": view}),
        ),
        (
            &any,
            masters(),
            json!({
                "user": "system:node:n", "groups": ["system:nodes"],
                "resourceAttributes": {"verb": "list", "resource": "nodes"},
            }),
            json!({"allowed": false, "reason": node}),
        ),
        (
            &any,
            masters(),
            json!({
                "user": "system:node:n", "groups": ["system:nodes"],
                "resourceAttributes": {
                    "verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "spec.nodeName=n"},
                },
            }),
            json!({"allowed": true}),
        ),
    ];
    for (path, who, spec, want) in table {
        let answer = done(post(&server, &who, path, json!({"spec": spec})).await);
        assert_eq!(answer["status"], want, "{path} {spec}");
        assert_eq!(answer["spec"]["resourceAttributes"]["resource"], spec["resourceAttributes"]["resource"]);
    }
}

#[tokio::test]
async fn wrong_questions() {
    let server = server().await;
    let any = format!("{REVIEWS}/subjectaccessreviews");
    let own = format!("{REVIEWS}/selfsubjectaccessreviews");
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    let invalid = |what: &str| format!(r#".authorization.k8s.io "" is invalid: {what}"#);
    let neither = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let both = r#"[spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":""}: cannot be specified in combination with resourceAttributes, spec.user: Invalid value: "": at least one of user or group must be specified, metadata: Invalid value: {"name":"x"}: must be empty]"#;
    let unlike = r#"spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace"#;
    let mismatch = "the namespace of the provided object does not match the namespace sent on the request";
    let table = [
        (&own, json!({"spec": {}}), 422, invalid(neither)),
        (&any, json!({"spec": {"user": "x"}}), 422, invalid(neither)),
        (
            &any,
            json!({
                "metadata": {"name": "x"},
                "spec": {"resourceAttributes": {"verb": "list"}, "nonResourceAttributes": {"path": "/a"}},
            }),
            422,
            invalid(both),
        ),
        (
            &local,
            json!({"spec": {"user": "x", "resourceAttributes": {"verb": "list"}}}),
            422,
            invalid(unlike),
        ),
        (&local, json!({"metadata": {"namespace": "b"}, "spec": {"user": "x"}}), 400, mismatch.into()),
        (
            &format!("{REVIEWS}/selfsubjectrulesreviews"),
            json!({"spec": {}}),
            400,
            "no namespace on request".into(),
        ),
    ];
    for (path, body, code, message) in table {
        assert_eq!(told(post(&server, &masters(), path, body).await), (code, message), "{path}");
    }
    assert_eq!(get(&server, &masters(), &any).await.0, 405);
    assert_eq!(send(&server, &masters(), Method::DELETE, &any, None).await.0, 405);
    assert_eq!(get(&server, &masters(), &format!("{any}/x")).await.0, 404);
}

#[tokio::test]
async fn all_that_somebody_may_do() {
    let server = server().await;
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let rules = |who: Who| {
        let (server, path) = (server.clone(), path.clone());
        async move { done(post(&server, &who, &path, json!({"spec": {"namespace": "default"}})).await) }
    };
    let joe = rules(Who::named("joe", &[])).await;
    assert_eq!((&joe["spec"], &joe["metadata"]), (&json!({}), &json!({})));
    let basic = json!({
        "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    });
    assert_eq!(joe["status"]["resourceRules"][0], basic);
    assert_eq!(joe["status"]["resourceRules"].as_array().unwrap().len(), 2);
    assert_eq!(joe["status"]["incomplete"], false);
    let node = rules(Who::node("n")).await;
    assert_eq!(node["status"]["incomplete"], true);
    assert_eq!(node["status"]["evaluationError"], "node authorizer does not support user rule resolution");
    let admin = rules(masters()).await;
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(admin["status"]["resourceRules"].as_array().unwrap().contains(&everything));
}

#[tokio::test]
async fn reviews_show_up_in_discovery_with_one_verb() {
    let server = server().await;
    for group in ["authentication.k8s.io", "authorization.k8s.io"] {
        let found = done(get(&server, &masters(), &format!("/apis/{group}/v1")).await);
        let all = found["resources"].as_array().unwrap();
        assert!(!all.is_empty() && all.iter().all(|kind| kind["verbs"] == json!(["create"])), "{found}");
    }
    let core = done(get(&server, &masters(), "/api/v1").await);
    let token: Vec<&Value> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|kind| kind["name"] == "serviceaccounts/token")
        .collect();
    assert_eq!(token[0]["kind"], "TokenRequest");
    assert_eq!(
        (&token[0]["group"], &token[0]["verbs"]),
        (&json!("authentication.k8s.io"), &json!(["create"]))
    );
}
