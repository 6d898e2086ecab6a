use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::Server;
use crate::store::{AppendError, Backend, Loaded, Options, Record, Store};
use crate::testing::{CLASSES, clock, from_outside, get, post, random, server};

async fn ask(server: &Server, path: &str, accept: &str) -> (StatusCode, Value) {
    let (head, body) = from_outside(server, Method::GET, path, &[("accept", accept)]).await;
    let text = || Value::String(String::from_utf8(body.to_vec()).unwrap());
    (head.status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
}

/// A server with all kinds of this build.
async fn whole() -> Server {
    let mut registry = crate::registry::Registry::new();
    crate::kinds::register::register(&mut registry);
    Server::new(Store::memory(), registry, clock(), random())
}

#[tokio::test]
async fn resources_as_upstream_lists_them() {
    let server = whole().await;
    let (_, core) = ask(&server, "/api/v1", "*/*").await;
    assert_eq!(core.get("apiVersion"), None, "the core group never had it");
    let named = |name: &str| {
        let all = core["resources"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert_eq!(
        named("configmaps"),
        json!({
            "name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["cm"], "storageVersionHash": "qFsyl6wFWjQ=",
        })
    );
    assert!(!named("namespaces")["verbs"].as_array().unwrap().contains(&json!("deletecollection")));
    let binding = named("pods/binding");
    assert_eq!((binding.get("group"), &binding["kind"]), (None, &json!("Binding")));
    let (_, storage) = ask(&server, "/apis/storage.k8s.io/v1", "*/*").await;
    assert_eq!(storage["resources"][0]["storageVersionHash"], "hL6j/rwBV5w=");
    assert_eq!(
        (&storage["apiVersion"], &storage["groupVersion"]),
        (&json!("v1"), &json!("storage.k8s.io/v1"))
    );

    let (_, groups) = ask(&server, "/apis", "*/*").await;
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    let places =
        ["storage.k8s.io", "coordination.k8s.io"].map(|wanted| names.iter().position(|n| *n == wanted));
    assert!(places[0].is_some() && places[0] < places[1], "{names:?}");
    let version = json!({"groupVersion": "storage.k8s.io/v1", "version": "v1"});
    let (_, group) = ask(&server, "/apis/storage.k8s.io", "*/*").await;
    assert_eq!((&group["preferredVersion"], &group["versions"]), (&version, &json!([version])));
}

#[tokio::test]
async fn the_address_is_the_one_the_client_used() {
    let server = whole().await;
    let (_, body) = from_outside(&server, Method::GET, "/api", &[("host", "example:6443")]).await;
    let versions: Value = serde_json::from_slice(&body).unwrap();
    let server = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "example:6443"}]);
    assert_eq!(versions["serverAddressByClientCIDRs"], server);
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn everything_at_once_and_never_twice() {
    let server = whole().await;
    let (head, body) = from_outside(&server, Method::GET, "/apis", &[("accept", AGGREGATED)]).await;
    assert_eq!(
        (head.headers["content-type"].as_bytes(), &head.headers["cache-control"]),
        (AGGREGATED.as_bytes(), &"public".parse().unwrap())
    );
    let all: Value = serde_json::from_slice(&body).unwrap();
    let one = |of: &Value, is: &dyn Fn(&Value) -> bool| {
        of.as_array().unwrap().iter().find(|one| is(one)).unwrap().clone()
    };
    let group = one(&all["items"], &|group| group["metadata"]["name"] == "storage.k8s.io");
    let class = one(&group["versions"][0]["resources"], &|resource| resource["resource"] == "storageclasses");
    assert_eq!(
        &class,
        &json!({
            "resource": "storageclasses", "scope": "Cluster", "singularResource": "storageclass",
            "responseKind": {"group": "", "version": "", "kind": "StorageClass"}, "shortNames": ["sc"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        })
    );
    let tag = head.headers["etag"].to_str().unwrap();
    let known = [("accept", AGGREGATED), ("if-none-match", tag)];
    let (head, body) = from_outside(&server, Method::GET, "/apis", &known).await;
    assert_eq!((head.status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(head.headers["etag"], tag);
}

#[tokio::test]
async fn forms_of_discovery() {
    let server = whole().await;
    let beta = AGGREGATED.replace("v=v2", "v=v2beta1");
    let plain_first = format!("application/json, {AGGREGATED};q=0.5");
    let cases = [
        (AGGREGATED.to_owned(), StatusCode::OK, "APIGroupDiscoveryList"),
        (format!("{beta}, {AGGREGATED}, application/json"), StatusCode::OK, "APIGroupDiscoveryList"),
        (format!("{beta}, application/json"), StatusCode::OK, "APIGroupList"),
        (plain_first, StatusCode::OK, "APIGroupList"),
        (beta, StatusCode::NOT_ACCEPTABLE, "Status"),
        ("application/xml".to_owned(), StatusCode::NOT_ACCEPTABLE, "Status"),
    ];
    for (accept, code, kind) in cases {
        let (found, body) = ask(&server, "/apis", &accept).await;
        assert_eq!((found, &body["kind"]), (code, &json!(kind)), "{accept}");
    }
}

#[tokio::test]
async fn paths_that_lead_nowhere() {
    let server = whole().await;
    // Text where nothing is known, a Status where the group is.
    let (text, status) = (json!("404 page not found\n"), json!("Status"));
    let cases = [
        ("/nope", &text),
        ("/apis/nope", &text),
        ("/apis/nope/v1", &text),
        ("/apis/nope/v1/things", &text),
        ("//api/v1/pods", &text),
        ("/healthz/", &text),
        ("/livez/nope", &text),
        ("/metrics/", &text),
        ("/api/v2", &status),
        ("/api/v2/pods", &status),
        ("/api/v1/nope", &status),
        ("/api/v1//pods", &status),
        ("/api/v1/namespaces/a/configmaps/b/c/d", &status),
        ("/apis/storage.k8s.io/v9", &status),
        ("/apis/storage.k8s.io/v9/storageclasses", &status),
    ];
    for (path, want) in cases {
        let (code, body) = ask(&server, path, "*/*").await;
        let found = if body.is_object() { &body["kind"] } else { &body };
        assert_eq!((code, found), (StatusCode::NOT_FOUND, want), "{path}");
    }
}

#[tokio::test]
async fn methods() {
    let server = whole().await;
    let cases = [
        (Method::HEAD, "/api/v1/namespaces", StatusCode::METHOD_NOT_ALLOWED),
        (Method::OPTIONS, "/api/v1/namespaces/default", StatusCode::METHOD_NOT_ALLOWED),
        (Method::TRACE, "/api/v1/namespaces", StatusCode::METHOD_NOT_ALLOWED),
        (Method::DELETE, "/api/v1/namespaces", StatusCode::METHOD_NOT_ALLOWED),
        (Method::DELETE, "/api/v1/configmaps", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/api", StatusCode::METHOD_NOT_ALLOWED),
        (Method::HEAD, "/version", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/healthz", StatusCode::OK),
        (Method::HEAD, "/", StatusCode::OK),
    ];
    for (method, path, code) in cases {
        let (head, _) = from_outside(&server, method.clone(), path, &[]).await;
        assert_eq!(head.status, code, "{method} {path}");
    }
}

#[tokio::test]
async fn the_root_lists_what_there_is() {
    let server = whole().await;
    let (_, root) = ask(&server, "/", "*/*").await;
    let paths: Vec<&str> =
        root["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.is_sorted());
    for path in ["/api/v1", "/apis/storage.k8s.io", "/apis/storage.k8s.io/v1", "/livez/ping", "/openapi/v3"] {
        assert!(paths.contains(&path), "{path}");
    }
    for path in paths.into_iter().filter(|path| *path != "/openapi/v3/") {
        assert_eq!(ask(&server, path, "*/*").await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn health_in_words() {
    let server = server().await;
    let cases = [
        ("/livez", "ok"),
        ("/livez?verbose", "[+]ping ok\nlivez check passed\n"),
        ("/readyz?verbose", "[+]ping ok\n[+]etcd ok\n[+]etcd-readiness ok\nreadyz check passed\n"),
        (
            "/healthz?verbose&exclude=etcd&exclude=moon",
            "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"moon\"\nhealthz check passed\n",
        ),
        ("/readyz/etcd", "ok"),
    ];
    for (path, want) in cases {
        assert_eq!(ask(&server, path, "*/*").await, (StatusCode::OK, json!(want)), "{path}");
    }
}

/// Fails every write.
struct Broken;

impl Backend for Broken {
    fn append(&mut self, _: &[Record], _: u64) -> Result<(), AppendError> {
        Err(AppendError { why: "the disk is gone".into(), full: false })
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        Err("the disk is gone".into())
    }
}

#[tokio::test]
async fn a_store_that_cannot_write_is_alive_and_not_ready() {
    let store = Store::on_thread(Box::new(Broken), Loaded::default(), Options::default()).unwrap();
    let server = Server::new(store, crate::testing::registry(), clock(), random());
    assert_eq!(get(&server, "/readyz").await.code, 200, "as long as nobody tried");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"}, "provisioner": "x",
    });
    assert!(post(&server, CLASSES, &class).await.code >= 500);
    let (code, body) = ask(&server, "/readyz", "*/*").await;
    let lines = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\nreadyz check failed\n";
    assert_eq!((code, body), (StatusCode::INTERNAL_SERVER_ERROR, json!(lines)));
    let (code, body) = ask(&server, "/readyz/etcd", "*/*").await;
    assert_eq!(
        (code, body),
        (StatusCode::INTERNAL_SERVER_ERROR, json!("internal server error: the disk is gone\n"))
    );
    assert_eq!(ask(&server, "/readyz?exclude=etcd&exclude=etcd-readiness", "*/*").await.0, StatusCode::OK);
    assert_eq!(ask(&server, "/livez", "*/*").await.0, StatusCode::OK);
}

#[tokio::test]
async fn the_version_is_one_that_clients_know() {
    let (_, version) = ask(&whole().await, "/version/", "*/*").await;
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."));
    assert!(version["platform"].as_str().unwrap().starts_with("linux/"));
}
