//! A standby becomes the leader: what its watches have not told of yet counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_host::fake;
use bowline_machinery::lease::{Settings, Timing};
use bowline_machinery::{Journal, Lease, Ports, client, role};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::role::Collector;

const MAPS: &str = "/api/v1/configmaps";

fn map(name: &str, mut metadata: Value) -> Value {
    for (key, value) in [("name", name), ("namespace", "default"), ("uid", name), ("resourceVersion", "5")] {
        metadata[key] = json!(value);
    }
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
}

/// Waits for its blocking dependents.
fn owner() -> Value {
    map("owner", json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}))
}

fn dependent() -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner", "blockOwnerDeletion": true});
    map("dependent", json!({"ownerReferences": [owner]}))
}

fn discovery() -> Value {
    let maps = json!({
        "resource": "configmaps", "responseKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "scope": "Namespaced", "verbs": ["delete", "get", "list", "patch", "watch"],
    });
    json!({"metadata": {}, "versions": [{"version": "v1", "resources": [maps]}]})
}

/// What the server answers; nothing to a watch, which stays open. The first list lacks the dependent.
fn answer(method: &str, path: &str, earlier: &[String]) -> (u16, Value) {
    let groups = |items: &[Value]| json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let listed = earlier.iter().any(|line| line == &format!("GET {MAPS}"));
    match (method, path) {
        ("GET", "/api") => (200, groups(&[discovery()])),
        ("GET", "/apis") => (200, groups(&[])),
        ("GET", MAPS) => {
            let items = if listed { vec![owner(), dependent()] } else { vec![owner()] };
            let kind = "PartialObjectMetadataList";
            let metadata = json!({"resourceVersion": "9"});
            (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata, "items": items}))
        }
        ("GET", path) if path.ends_with("/owner") => (200, owner()),
        ("PATCH", _) => (200, owner()),
        ("DELETE", _) => (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        ("GET", _) => {
            (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}))
        }
        _ => (201, Value::Null),
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lets_no_owner_go_before_dependents_that_it_has_not_heard_of() {
    let seen = Arc::new(Mutex::new(Vec::<String>::new()));
    let log = seen.clone();
    let client = client::in_process(tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            if parts.uri.query().is_some_and(|query| query.contains("watch=")) {
                return std::future::pending().await;
            }
            let (method, path) = (parts.method.as_str(), parts.uri.path());
            let (code, mut answer) = answer(method, path, &log.lock().unwrap());
            log.lock().unwrap().push(format!("{method} {path}"));
            if answer.is_null() {
                // The lease, as it was sent.
                answer = serde_json::from_slice(&body.collect_bytes().await?)?;
                answer["metadata"]["resourceVersion"] = json!("7");
            }
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, tower::BoxError>(answer?)
        }
    }));
    let (stop, (host, _)) = (CancellationToken::new(), fake::host(1));
    let settings = Settings {
        namespace: "kube-system".into(),
        name: "lock".into(),
        identity: "a".into(),
        labels: Default::default(),
        timing: Timing::CORE,
        release_on_exit: false,
    };
    let (lease, leadership) = Lease::new(client.clone(), host.clone(), settings);
    let ports = Ports::new(client, host, Journal::default(), stop.clone()).led_by(leadership);
    let standby = tokio::spawn(role::run::<Collector>(ports, ()));
    tokio::time::sleep(Duration::from_secs(40)).await;
    let written = || -> Vec<String> {
        let writes = |line: &&String| !line.starts_with("GET") && line.contains("configmaps");
        seen.lock().unwrap().iter().filter(writes).cloned().collect()
    };
    assert_eq!(written(), Vec::<String>::new(), "it does not lead yet");
    tokio::spawn(lease.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let first = written().into_iter().next();
    assert_eq!(
        first.as_deref(),
        Some("DELETE /api/v1/namespaces/default/configmaps/dependent"),
        "{:?}",
        seen.lock()
    );
    stop.cancel();
    standby.await.unwrap().unwrap();
}
