//! `kubectl --as`.

use serde_json::json;

use super::{RBAC, Who, binding, done, get, masters, post, role, server_with, static_tokens, told};
use crate::auth::Settings;
use crate::server::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn prepared() -> Server {
    let static_tokens = static_tokens("root,root,1,system:masters\njoe,joe,2\n");
    server_with(Settings { static_tokens, ..Settings::default() }).await
}

async fn grant(server: &Server, name: &str, rules: serde_json::Value) {
    done(post(server, &masters(), &format!("{RBAC}/clusterroles"), role("ClusterRole", name, rules)).await);
    let object = binding("ClusterRoleBinding", name, &format!("ClusterRole/{name}"), "User/joe");
    done(post(server, &masters(), &format!("{RBAC}/clusterrolebindings"), object).await);
}

fn acting(token: &str, user: &str) -> Who {
    Who::bearer(token).with("impersonate-user", user)
}

#[tokio::test]
async fn who_one_becomes() {
    let server = prepared().await;
    let whole = acting("root", "x")
        .with("impersonate-uid", "5")
        .with("impersonate-group", "g1")
        .with("impersonate-group", "g2")
        .with("impersonate-extra-scopes", "a")
        .with("impersonate-extra-abc%2fdef", "z");
    let table = [
        (
            whole,
            json!({
                "username": "x", "uid": "5", "groups": ["g1", "g2", "system:authenticated"],
                "extra": {"abc/def": ["z"], "scopes": ["a"]},
            }),
        ),
        (
            acting("root", "system:serviceaccount:a:b"),
            json!({
                "username": "system:serviceaccount:a:b",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
            }),
        ),
        (
            acting("root", "system:node:n1"),
            json!({"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}),
        ),
        (
            acting("root", "x").with("impersonate-group", "system:masters"),
            json!({"username": "x", "groups": ["system:masters", "system:authenticated"]}),
        ),
    ];
    for (who, want) in table {
        assert_eq!(done(post(&server, &who, WHOAMI, json!({})).await)["status"]["userInfo"], want);
    }
    let (code, message) = told(post(&server, &acting("root", "system:anonymous"), WHOAMI, json!({})).await);
    assert_eq!(code, 403);
    assert!(
        message.contains(r#"User "system:anonymous" cannot create resource "selfsubjectreviews""#),
        "{message}"
    );
}

#[tokio::test]
async fn refusals_speak_of_the_constrained_form() {
    let server = prepared().await;
    let cannot = |way: &str| {
        format!(
            r#"pods is forbidden: User "joe" cannot impersonate-on:{way}:list resource "pods" in API group "" in the namespace "default""#
        )
    };
    let table = [
        ("bob", cannot("user-info")),
        ("system:node:n1", cannot("arbitrary-node")),
        ("system:serviceaccount:a:b", cannot("serviceaccount")),
    ];
    for (name, message) in table {
        assert_eq!(told(get(&server, &acting("joe", name), PODS).await), (403, message), "{name}");
    }
    let message = r#"forbidden: User "joe" cannot impersonate-on:user-info:get path "/version""#;
    assert_eq!(told(get(&server, &acting("joe", "bob"), "/version").await), (403, message.into()));
    let bare = Who::bearer("joe").with("impersonate-group", "bob");
    let message = r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"bob"}, Extra:map[string][]string(nil)} without impersonating a user name"#;
    assert_eq!(told(get(&server, &bare, "/version").await), (400, message.into()));
}

#[tokio::test]
async fn the_old_right_is_enough() {
    let server = prepared().await;
    grant(&server, "old", json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}]))
        .await;
    let message = r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#;
    assert_eq!(told(get(&server, &acting("joe", "bob"), PODS).await), (403, message.into()));
    let grouped = acting("joe", "bob").with("impersonate-group", "g");
    assert_eq!(get(&server, &grouped, "/version").await.0, 403, "groups are asked for on their own");
}

#[tokio::test]
async fn the_constrained_right_holds_for_one_verb() {
    let server = prepared().await;
    let rules = json!([
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["pods"]},
    ]);
    grant(&server, "new", rules).await;
    let as_bob = acting("joe", "bob").with("impersonate-group", "g");
    let (_, message) = told(get(&server, &as_bob, PODS).await);
    assert!(message.starts_with(r#"pods is forbidden: User "bob" cannot list"#), "{message}");
    let (_, message) = told(get(&server, &as_bob, &format!("{PODS}/x")).await);
    assert!(message.contains("impersonate-on:user-info:get"), "{message}");
    let master = acting("joe", "bob").with("impersonate-group", "system:masters");
    let (_, message) = told(get(&server, &master, PODS).await);
    assert!(message.ends_with("impersonating the system:masters group is not allowed"), "{message}");
}
