//! What clients of a whole server see of its store.

use super::*;
use crate::testing::{self, CONFIGMAPS, configmap, delete, get, patch, post, put, server_on, watch};

#[tokio::test]
async fn a_full_store_is_507_and_says_what_to_do() {
    let server = server_on(Store::memory_on(Options { quota: 20_000, ..Options::default() })).await;
    let mut large = configmap("a");
    large["data"]["a"] = "x".repeat(15_000).into();
    post(&server, CONFIGMAPS, &large).await.ok();
    large["metadata"]["name"] = "b".into();
    let refused = post(&server, CONFIGMAPS, &large).await;
    assert_eq!(refused.code, 507);
    assert_eq!(
        (&refused.body["reason"], &refused.body["code"]),
        (&"InsufficientStorage".into(), &507.into())
    );
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("of 20000 bytes") && message.contains("--quota-backend-bytes"), "{message}");

    let path = format!("{CONFIGMAPS}/a");
    assert_eq!(get(&server, &path).await.ok()["data"], large["data"]);
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    assert_eq!(patch(&server, &path, "merge", &held).await.code, 200, "there is a little room");
    delete(&server, &path, None).await.ok();
    assert!(get(&server, &path).await.ok()["metadata"]["deletionTimestamp"].is_string());
    patch(&server, &path, "merge", &json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(get(&server, &path).await.code, 404);
    post(&server, CONFIGMAPS, &large).await.ok();
}

/// Two servers on one etcd, each asking another member.
async fn two() -> (crate::Server, crate::Server) {
    let (cluster, prefix) = (etcd::cluster::shared(), etcd::cluster::prefix());
    let one = cluster.store_at(0, &prefix, Options::default());
    let two = cluster.store_at(1, &prefix, Options::default());
    let (one, two) = tokio::join!(one, two);
    tokio::join!(whole_server(one), whole_server(two))
}

/// With the real kinds: namespaces take their content along.
async fn whole_server(store: Store) -> crate::Server {
    let mut registry = crate::Registry::new();
    crate::kinds::register::register(&mut registry);
    let server = crate::Server::new(store, registry, testing::clock(), testing::random());
    server.bootstrap().await.unwrap();
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_are_one_to_their_clients() {
    let (one, two) = two().await;
    for n in 0..20 {
        let (name, namespace) = (format!("n{n}"), format!("ns{n}"));
        let path = format!("{CONFIGMAPS}/{name}");
        let made = post(&one, CONFIGMAPS, &configmap(&name)).await.ok();
        assert_eq!(get(&two, &path).await.ok(), made);
        let listed = get(&two, CONFIGMAPS).await.ok();
        assert!(testing::version(&listed) >= testing::version(&made));
        assert_eq!(listed["items"].as_array().unwrap().len(), n + 1);

        // The version of one server is good at the other, at once and only once.
        let mut changed = made.clone();
        changed["data"]["a"] = "2".into();
        let updated = put(&two, &path, &changed).await.ok();
        assert_eq!(put(&one, &path, &changed).await.code, 409);
        assert_eq!(get(&one, &path).await.ok(), updated);

        // A namespace made here takes content there, and none once it is gone.
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        post(&one, "/api/v1/namespaces", &space).await.ok();
        let inside = format!("/api/v1/namespaces/{namespace}/configmaps");
        post(&two, &inside, &configmap("inside")).await.ok();
        delete(&one, &format!("/api/v1/namespaces/{namespace}"), None).await.ok();
        assert_eq!(post(&two, &inside, &configmap("late")).await.code, 404);
        assert_eq!(get(&two, &inside).await.ok()["items"], json!([]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_watches_go_on_at_another_server() {
    let (one, two) = two().await;
    for name in ["a", "b", "c"] {
        post(&one, CONFIGMAPS, &configmap(name)).await.ok();
    }
    let first = get(&one, &format!("{CONFIGMAPS}?limit=2")).await.ok();
    let version = testing::version(&first);
    let mut changes =
        watch(&two, &format!("{CONFIGMAPS}?watch=1&resourceVersion={version}"), "application/json").await;
    post(&one, CONFIGMAPS, &configmap("d")).await.ok();
    assert_eq!(changes.brief().await, ("ADDED".to_owned(), "d".to_owned()));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&two, &format!("{CONFIGMAPS}?limit=2&continue={token}")).await.ok();
    let names: Vec<_> =
        second["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["c"], "the page after the first one, as of the first one");
    assert_eq!(testing::version(&second), version);
}
