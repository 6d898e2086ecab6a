//! Roles and bindings on a whole server: who gets what, at once, and upstream's defaults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{RBAC, Who, binding, done, get, masters, post, role, send, server, server_on, settings, told};
use crate::server::Server;
use crate::testing::store_that;

const JOE: &str = "joe";

fn rules(verbs: &[&str], resources: &[&str]) -> Value {
    json!([{"verbs": verbs, "apiGroups": [""], "resources": resources}])
}

async fn create(server: &Server, plural: &str, namespace: &str, object: Value) {
    let path = match namespace {
        "" => format!("{RBAC}/{plural}"),
        namespace => format!("{RBAC}/namespaces/{namespace}/{plural}"),
    };
    done(post(server, &masters(), &path, object).await);
}

#[tokio::test]
async fn a_binding_takes_effect_at_once_and_ends_at_once() {
    let server = server().await;
    let joe = Who::named(JOE, &[]);
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(
        told(get(&server, &joe, pods).await),
        (403, r#"pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "default""#.into())
    );
    create(&server, "roles", "default", role("Role", "reader", rules(&["list"], &["pods"]))).await;
    create(&server, "rolebindings", "default", binding("RoleBinding", "b", "Role/reader", "User/joe")).await;
    assert_eq!(get(&server, &joe, pods).await.0, 200);
    assert_eq!(get(&server, &joe, "/api/v1/pods").await.0, 403, "only in its namespace");
    assert_eq!(get(&server, &joe, "/api/v1/namespaces/kube-system/pods").await.0, 403);
    assert_eq!(get(&server, &Who::named("ann", &[]), pods).await.0, 403);

    let path = format!("{RBAC}/namespaces/default/roles/reader");
    let wider = json!({"rules": rules(&["list", "get"], &["pods", "configmaps"])});
    done(send(&server, &masters(), Method::PATCH, &path, Some(wider)).await);
    assert_eq!(get(&server, &joe, "/api/v1/namespaces/default/configmaps").await.0, 200);
    assert_eq!(get(&server, &joe, "/api/v1/namespaces/default/pods/x").await.0, 404);

    let path = format!("{RBAC}/namespaces/default/rolebindings/b");
    done(send(&server, &masters(), Method::DELETE, &path, None).await);
    assert_eq!(get(&server, &joe, pods).await.0, 403);
}

#[tokio::test]
async fn users_groups_and_service_accounts() {
    let server = server().await;
    create(&server, "clusterroles", "", role("ClusterRole", "nodes", rules(&["list"], &["nodes"]))).await;
    for (name, subject) in [("u", "User/u"), ("g", "Group/g"), ("s", "ServiceAccount/s")] {
        let object = binding("ClusterRoleBinding", name, "ClusterRole/nodes", subject);
        create(&server, "clusterrolebindings", "", object).await;
    }
    let table = [
        (Who::named("u", &[]), 200),
        (Who::named("x", &["g"]), 200),
        (Who::named("g", &[]), 403),
        (Who::named("x", &["u"]), 403),
        (Who::named("system:serviceaccount:default:s", &[]), 200),
        (Who::named("system:serviceaccount:other:s", &[]), 403),
    ];
    for (who, code) in table {
        assert_eq!(get(&server, &who, "/api/v1/nodes").await.0, code);
    }
}

#[tokio::test]
async fn named_objects_may_be_listed_by_their_name() {
    let server = server().await;
    let named = json!([{
        "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
    }]);
    create(&server, "roles", "default", role("Role", "a", named)).await;
    create(&server, "rolebindings", "default", binding("RoleBinding", "a", "Role/a", "User/joe")).await;
    let joe = Who::named(JOE, &[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let table = [
        (format!("{maps}/a"), 404),
        (format!("{maps}/b"), 403),
        (maps.to_owned(), 403),
        (format!("{maps}?fieldSelector=metadata.name%3Da"), 200),
        (format!("{maps}?fieldSelector=metadata.name%3Db"), 403),
    ];
    for (path, code) in table {
        assert_eq!(get(&server, &joe, &path).await.0, code, "{path}");
    }
}

#[tokio::test]
async fn a_missing_role_is_named_in_the_refusal() {
    let server = server().await;
    create(
        &server,
        "clusterrolebindings",
        "",
        binding("ClusterRoleBinding", "x", "ClusterRole/ghost2", "User/joe"),
    )
    .await;
    create(&server, "rolebindings", "default", binding("RoleBinding", "x", "Role/ghost", "User/joe")).await;
    let joe = Who::named(JOE, &[]);
    let (_, message) = told(get(&server, &joe, "/api/v1/namespaces/default/secrets").await);
    let want = r#": RBAC: [clusterrole.rbac.authorization.k8s.io "ghost2" not found, role.rbac.authorization.k8s.io "ghost" not found]"#;
    assert!(message.ends_with(want), "{message}");
    let (_, message) = told(get(&server, &joe, "/api/v1/nodes").await);
    let want = r#"at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "ghost2" not found"#;
    assert!(message.ends_with(want), "{message}");
}

#[tokio::test]
async fn upstreams_defaults_are_there_and_are_repaired() {
    let server = server().await;
    let admin = masters();
    let all = done(get(&server, &admin, &format!("{RBAC}/clusterroles")).await);
    assert!(all["items"].as_array().unwrap().len() > 60);
    assert!(crate::auth::rbac::node_rules().len() > 10);
    let scheduler = Who::named("system:kube-scheduler", &[]);
    assert_eq!(get(&server, &scheduler, "/api/v1/pods").await.0, 200);
    assert_eq!(get(&server, &scheduler, "/api/v1/secrets").await.0, 403);

    // A rule, a label and a subject are taken away, something is added: a new start repairs the first three.
    let path = format!("{RBAC}/clusterroles/system:kube-scheduler");
    let mut object = done(get(&server, &admin, &path).await);
    object["rules"] = json!([{"verbs": ["get"], "apiGroups": ["extra"], "resources": ["things"]}]);
    object["metadata"]["labels"] = json!({});
    done(send(&server, &admin, Method::PUT, &path, Some(object)).await);
    let bound = format!("{RBAC}/clusterrolebindings/system:kube-scheduler");
    done(send(&server, &admin, Method::PATCH, &bound, Some(json!({"subjects": null}))).await);
    assert_eq!(get(&server, &scheduler, "/api/v1/pods").await.0, 403);
    server.bootstrap().await.unwrap();
    assert_eq!(get(&server, &scheduler, "/api/v1/pods").await.0, 200);
    let object = done(get(&server, &admin, &path).await);
    assert_eq!(object["rules"][0]["apiGroups"], json!(["extra"]), "what somebody added stays");
    assert_eq!(object["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");

    // A second start finds nothing to do.
    let version = server.store().version();
    server.bootstrap().await.unwrap();
    assert_eq!(server.store().version(), version);

    // Left alone on request.
    let leave = json!({
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "subjects": null,
    });
    done(send(&server, &admin, Method::PATCH, &bound, Some(leave)).await);
    server.bootstrap().await.unwrap();
    assert_eq!(get(&server, &scheduler, "/api/v1/pods").await.0, 403);
}

#[tokio::test]
async fn a_default_binding_to_another_role_is_replaced() {
    let server = server().await;
    let path = format!("{RBAC}/clusterrolebindings/system:discovery");
    done(send(&server, &masters(), Method::DELETE, &path, None).await);
    let other = binding("ClusterRoleBinding", "system:discovery", "ClusterRole/view", "User/joe");
    create(&server, "clusterrolebindings", "", other).await;
    server.bootstrap().await.unwrap();
    let object = done(get(&server, &masters(), &path).await);
    assert_eq!(object["roleRef"]["name"], "system:discovery");
}

#[tokio::test]
async fn aggregated_roles_follow_their_parts() {
    let server = server().await;
    let object = done(get(&server, &masters(), &format!("{RBAC}/clusterroles/admin")).await);
    let rules = object["rules"].as_array().unwrap();
    assert!(rules.len() > 10, "admin holds what edit holds, which holds what view holds: {}", rules.len());
    create(&server, "rolebindings", "default", binding("RoleBinding", "a", "ClusterRole/admin", "User/joe"))
        .await;
    let joe = Who::named(JOE, &[]);
    assert_eq!(get(&server, &joe, "/api/v1/namespaces/default/secrets").await.0, 200);

    let stop = tokio_util::sync::CancellationToken::new();
    let following = tokio::spawn({
        let (server, stop) = (server.clone(), stop.clone());
        async move { server.follow_aggregation(stop).await }
    });
    let mut part = role(
        "ClusterRole",
        "widgets",
        json!([{"verbs": ["get"], "apiGroups": ["w.io"], "resources": ["ws"]}]),
    );
    part["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    create(&server, "clusterroles", "", part).await;
    let path = "/apis/w.io/v1/namespaces/default/ws/x";
    let added = async {
        // Forbidden turns into not found when the rule has come through view and edit to admin.
        while get(&server, &joe, path).await.0 == 403 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), added).await.unwrap();
    let gone = format!("{RBAC}/clusterroles/widgets");
    done(send(&server, &masters(), Method::DELETE, &gone, None).await);
    let removed = async {
        while get(&server, &joe, path).await.0 != 403 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), removed).await.unwrap();
    stop.cancel();
    following.await.unwrap();
}

fn gathering(name: &str, from: &str, rules: Value) -> Value {
    let mut object = role("ClusterRole", name, rules);
    object["metadata"]["labels"] = json!({(format!("to-{from}")): "true"});
    let selector = json!({"matchLabels": {(format!("to-{name}")): "true"}});
    object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    object
}

#[tokio::test]
async fn roles_that_are_made_of_each_other_settle() {
    let server = server().await;
    create(&server, "clusterroles", "", gathering("one", "other", rules(&["get"], &["pods"]))).await;
    create(&server, "clusterroles", "", gathering("other", "one", json!([]))).await;
    let mut part = role("ClusterRole", "part", rules(&["list"], &["nodes"]));
    part["metadata"]["labels"] = json!({"to-other": "true"});
    create(&server, "clusterroles", "", part).await;
    let version = server.store().version();
    server.bootstrap().await.unwrap();
    assert_eq!(server.store().version(), version + 2, "each role is written once");
    for name in ["one", "other"] {
        let object = done(get(&server, &masters(), &format!("{RBAC}/clusterroles/{name}")).await);
        assert_eq!(object["rules"], json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}]));
    }
    // Nothing is left to do, and what no part has goes.
    server.bootstrap().await.unwrap();
    assert_eq!(server.store().version(), version + 2);
    let gone = format!("{RBAC}/clusterroles/part");
    done(send(&server, &masters(), Method::DELETE, &gone, None).await);
    server.bootstrap().await.unwrap();
    let object = done(get(&server, &masters(), &format!("{RBAC}/clusterroles/one")).await);
    assert_eq!(object["rules"], json!([]));
}

/// A store that takes no writes for a while is no reason to give up for good.
#[tokio::test]
async fn aggregation_outlives_a_store_that_fails() {
    let (broken, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (is_broken, refusing) = (broken.clone(), refused.clone());
    let store = store_that(move || {
        if is_broken.load(Ordering::SeqCst) {
            refusing.notify_one();
            return Err("the disk is gone".into());
        }
        Ok(())
    });
    let server = server_on(store, settings()).await;
    create(&server, "clusterroles", "", gathering("one", "none", json!([]))).await;
    let mut part = role("ClusterRole", "part", rules(&["list"], &["nodes"]));
    part["metadata"]["labels"] = json!({"to-one": "true"});
    create(&server, "clusterroles", "", part).await;

    broken.store(true, Ordering::SeqCst);
    let stop = tokio_util::sync::CancellationToken::new();
    let following = tokio::spawn({
        let (server, stop) = (server.clone(), stop.clone());
        async move { server.follow_aggregation(stop).await }
    });
    let bound = Duration::from_secs(20);
    tokio::time::timeout(bound, refused.notified()).await.unwrap();
    broken.store(false, Ordering::SeqCst);
    let version = server.store().version();
    tokio::time::timeout(bound, server.store().reached(version + 1)).await.expect("it is tried again");
    let object = done(get(&server, &masters(), &format!("{RBAC}/clusterroles/one")).await);
    assert_eq!(object["rules"][0]["resources"], json!(["nodes"]));
    stop.cancel();
    following.await.unwrap();
}
