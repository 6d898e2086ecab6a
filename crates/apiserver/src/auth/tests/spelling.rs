//! However a path is spelled, what is asked for there is what is answered.

use http::Method;
use serde_json::json;

use super::{RBAC, Who, binding, done, get, masters, post, role, send, server};

#[tokio::test]
async fn who_may_discover_may_not_read() {
    let server = server().await;
    let joe = Who::named("joe", &["system:authenticated"]);
    assert_eq!(get(&server, &joe, "/api/v1").await.0, 200);
    for path in [
        "/api/v1/secrets",
        "/api%2Fv1/secrets",
        "/api%2fv1%2fnamespaces/default/secrets",
        "/api/v1%2Fsecrets",
    ] {
        assert_eq!(get(&server, &joe, path).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn who_may_watch_may_not_write() {
    let server = server().await;
    let rules = json!([{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"]}]);
    done(post(&server, &masters(), &format!("{RBAC}/clusterroles"), role("ClusterRole", "r", rules)).await);
    let bound = binding("ClusterRoleBinding", "b", "ClusterRole/r", "User/joe");
    done(post(&server, &masters(), &format!("{RBAC}/clusterrolebindings"), bound).await);
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    done(post(&server, &masters(), maps, object("kept")).await);

    let joe = Who::named("joe", &[]);
    let watched = "/api/v1/watch/namespaces/default/configmaps";
    assert_eq!(post(&server, &joe, watched, object("new")).await.0, 405);
    for path in [watched.to_owned(), format!("{watched}/kept"), "/api/v1/watch/configmaps".into()] {
        assert_eq!(send(&server, &joe, Method::DELETE, &path, None).await.0, 405, "{path}");
    }
    let left = done(get(&server, &masters(), maps).await);
    let names: Vec<_> =
        left["items"].as_array().unwrap().iter().map(|map| &map["metadata"]["name"]).collect();
    assert!(names.contains(&&json!("kept")) && !names.contains(&&json!("new")), "{names:?}");
}
