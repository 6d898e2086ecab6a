//! Nobody grants what they do not have. The messages are upstream's, seen on a real server.

use http::Method;
use serde_json::{Value, json};

use super::{RBAC, Who, binding, done, get, masters, post, role, send, server, told};
use crate::server::Server;

const WHO: &str = r#"user "joe" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#;

fn joe() -> Who {
    Who::named("joe", &["dev"])
}

/// Somebody who may write roles and bindings, and get pods.
async fn prepared(more: Value) -> Server {
    let server = server().await;
    let mut rules = json!([
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
            "verbs": ["create", "update", "patch", "get"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    rules.as_array_mut().unwrap().extend(more.as_array().cloned().unwrap_or_default());
    done(
        post(&server, &masters(), &format!("{RBAC}/clusterroles"), role("ClusterRole", "writer", rules))
            .await,
    );
    let object = binding("ClusterRoleBinding", "writer", "ClusterRole/writer", "User/joe");
    done(post(&server, &masters(), &format!("{RBAC}/clusterrolebindings"), object).await);
    server
}

#[tokio::test]
async fn roles() {
    let server = prepared(json!([])).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let mine = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    done(post(&server, &joe(), &roles, role("Role", "mine", mine)).await);

    let more = json!([
        {"apiGroups": ["", "apps"], "resources": ["pods", "secrets"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["*"]},
    ]);
    let lines = [
        r#"{APIGroups:[""], Resources:["configmaps"], ResourceNames:["a"], Verbs:["*"]}"#,
        r#"{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["*"]}"#,
        r#"{APIGroups:[""], Resources:["pods"], Verbs:["list"]}"#,
        r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
        r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}"#,
        r#"{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list"]}"#,
    ];
    let message = format!("roles.rbac.authorization.k8s.io \"r1\" is forbidden: {WHO}\n{}", lines.join("\n"));
    assert_eq!(told(post(&server, &joe(), &roles, role("Role", "r1", more.clone())).await), (403, message));

    // What is already there may be touched as long as nothing is granted anew.
    let own = format!("{roles}/mine");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    done(send(&server, &joe(), Method::PATCH, &own, Some(label.clone())).await);
    let wider = told(send(&server, &joe(), Method::PATCH, &own, Some(json!({"rules": more}))).await);
    assert_eq!(wider.0, 403);
    done(post(&server, &masters(), &roles, role("Role", "strong", more)).await);
    let strong = format!("{roles}/strong");
    let finalizer = json!({"metadata": {"finalizers": ["a.io/b"]}});
    done(send(&server, &joe(), Method::PATCH, &strong, Some(finalizer)).await);
    assert_eq!(send(&server, &joe(), Method::PATCH, &strong, Some(label)).await.0, 403);
}

#[tokio::test]
async fn cluster_roles() {
    let server = prepared(json!([])).await;
    let roles = format!("{RBAC}/clusterroles");
    let paths = json!([{"nonResourceURLs": ["/a", "/b*"], "verbs": ["get", "post"]}]);
    let lines = [
        r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
        r#"{NonResourceURLs:["/a"], Verbs:["post"]}"#,
        r#"{NonResourceURLs:["/b*"], Verbs:["get"]}"#,
        r#"{NonResourceURLs:["/b*"], Verbs:["post"]}"#,
    ];
    let message =
        format!("clusterroles.rbac.authorization.k8s.io \"c\" is forbidden: {WHO}\n{}", lines.join("\n"));
    assert_eq!(told(post(&server, &joe(), &roles, role("ClusterRole", "c", paths)).await), (403, message));

    let mut gathers = role("ClusterRole", "c", json!([]));
    gathers["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let message = r#"clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule"#;
    assert_eq!(told(post(&server, &joe(), &roles, gathers).await), (403, message.into()));
}

#[tokio::test]
async fn bindings() {
    let server = prepared(json!([])).await;
    let (bindings, everywhere) =
        (format!("{RBAC}/namespaces/default/rolebindings"), format!("{RBAC}/clusterrolebindings"));
    let all = r#"
{APIGroups:["*"], Resources:["*"], Verbs:["*"]}
{NonResourceURLs:["*"], Verbs:["*"]}"#;
    let admin = |kind: &str| binding(kind, "b", "ClusterRole/cluster-admin", "User/joe");
    let message = format!("rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: {WHO}{all}");
    assert_eq!(told(post(&server, &joe(), &bindings, admin("RoleBinding")).await), (403, message));
    let message = format!("clusterrolebindings.rbac.authorization.k8s.io \"b\" is forbidden: {WHO}{all}");
    assert_eq!(told(post(&server, &joe(), &everywhere, admin("ClusterRoleBinding")).await), (403, message));

    let ghost = binding("ClusterRoleBinding", "b", "ClusterRole/nope", "User/joe");
    let message = r#"clusterrolebindings.rbac.authorization.k8s.io "nope" not found"#;
    assert_eq!(told(post(&server, &joe(), &everywhere, ghost).await), (404, message.into()));

    let own = binding("RoleBinding", "own", "ClusterRole/writer", "User/ann");
    done(post(&server, &joe(), &bindings, own).await);
}

#[tokio::test]
async fn escalate_and_bind_lift_it() {
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]},
        {
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"],
            "resourceNames": ["view"],
        },
    ]);
    let server = prepared(rules).await;
    let strong = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    done(post(&server, &joe(), &roles, role("Role", "strong", strong.clone())).await);
    assert_eq!(
        post(&server, &joe(), &format!("{RBAC}/clusterroles"), role("ClusterRole", "s", strong)).await.0,
        403
    );
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    done(post(&server, &joe(), &bindings, binding("RoleBinding", "v", "ClusterRole/view", "User/joe")).await);
    assert_eq!(
        post(&server, &joe(), &bindings, binding("RoleBinding", "e", "ClusterRole/edit", "User/joe")).await.0,
        403
    );
    assert_eq!(get(&server, &joe(), "/api/v1/namespaces/default/configmaps").await.0, 200);
}

/// A rule is a product of its lists, so a short one can be of a size that nobody should wait for.
#[tokio::test]
async fn a_role_of_too_many_parts() {
    let held = json!([{"apiGroups": ["*"], "resources": ["things"], "verbs": ["*"]}]);
    let server = prepared(held).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let many = |letter: &str| -> Vec<String> { (0..1000).map(|n| format!("{letter}{n}")).collect() };
    let mut rules = json!([{"apiGroups": many("g"), "resources": ["things"], "resourceNames": many("n"), "verbs": many("v")}]);
    done(post(&server, &joe(), &roles, role("Role", "held", rules.clone())).await);
    rules[0]["resources"] = json!(many("r"));
    let why = "rules that none of the rules currently held covers as a whole and that stand for more than 100000 single permissions: grant them in smaller roles";
    let who = WHO.split(" RBAC ").next().unwrap();
    let message = format!("roles.rbac.authorization.k8s.io \"r\" is forbidden: {who} {why}");
    assert_eq!(told(post(&server, &joe(), &roles, role("Role", "r", rules)).await), (403, message));
}
