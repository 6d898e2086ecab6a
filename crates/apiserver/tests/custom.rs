//! Custom resources: requests and the answers that kube-apiserver v1.36.3 gave to them, replayed.
//!
//! Each file in `tests/custom` is a conversation with one server. Of an answer count the code, the reason, the causes in
//! any order (upstream goes through maps), the message where there is at most one cause, the warnings, and the object
//! without what differs from run to run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::PathBuf;

use bowline_apiserver::{Server, Store};
use bytes::Bytes;
use common::kubectl::serve;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    method: String,
    path: String,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    body: Option<Value>,
    answer: Value,
}

/// What the server says, in the form in which answers are recorded.
async fn ask(server: &Server, case: &Case) -> Value {
    let media = case.content_type.as_deref().unwrap_or("application/json");
    let body = case.body.as_ref().map(ToString::to_string).unwrap_or_default();
    let request =
        Request::builder().method(case.method.as_str()).uri(&case.path).header("content-type", media);
    let response = server.handle(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let (head, body) = response.into_parts();
    let warnings: Vec<&str> =
        head.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap()).collect();
    let body = body.collect().await.unwrap().to_bytes();
    let mut answer = match serde_json::from_slice::<Value>(&body) {
        Ok(status) if status["kind"] == "Status" => of_status(&status),
        Ok(object) => json!({"object": object}),
        Err(_) => json!({"text": String::from_utf8_lossy(&body)}),
    };
    answer["code"] = head.status.as_u16().into();
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    answer
}

fn of_status(status: &Value) -> Value {
    let mut answer = json!({});
    let details = &status["details"];
    let causes: Vec<&Value> = details["causes"].as_array().into_iter().flatten().collect();
    let mut listed: Vec<[&str; 3]> = causes
        .iter()
        .map(|cause| ["reason", "field", "message"].map(|part| cause[part].as_str().unwrap_or_default()))
        .collect();
    listed.sort_unstable();
    if !listed.is_empty() {
        answer["causes"] = json!(listed);
    }
    let told = [
        ("reason", &status["reason"]),
        ("message", if listed.len() < 2 { &status["message"] } else { &Value::Null }),
        ("group", &details["group"]),
        ("kind", &details["kind"]),
        ("name", &details["name"]),
    ];
    for (field, value) in told.into_iter().filter(|(_, value)| !value.is_null()) {
        answer[field] = value.clone();
    }
    answer
}

/// Without what differs from run to run. Of definitions only what the client wrote counts.
fn comparable(mut answer: Value) -> Value {
    let Some(object) = answer.get_mut("object").and_then(Value::as_object_mut) else { return answer };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp"] {
            metadata.remove(field);
        }
    }
    if object.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition") {
        let spec = object.remove("spec").unwrap_or_default();
        *object = Map::from_iter([("spec".to_owned(), spec)]);
    }
    answer
}

async fn replay(server: &Server, recorded: &str) {
    let cases: Vec<Case> = serde_json::from_str(recorded).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let (got, want) = (comparable(ask(server, case).await), comparable(case.answer.clone()));
        if got != want {
            wrong.push(format!("{}\n  got  {got}\n  want {want}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[tokio::test]
async fn definitions() {
    let server = common::server(Store::memory()).await;
    replay(&server, include_str!("custom/definitions.json")).await;
}

#[tokio::test]
async fn objects() {
    let server = common::server(Store::memory()).await;
    replay(&server, include_str!("custom/things.json")).await;
}

/// Nulls where Go has none, types that do not fit, the scale of objects, and what is warned of once only.
#[tokio::test]
async fn changes() {
    let server = common::server(Store::memory()).await;
    replay(&server, include_str!("custom/changes.json")).await;
}

/// Upstream's definitions, unchanged and by plain kubectl; then their objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots() {
    let server = common::server(Store::memory()).await;
    let dir = tempfile::tempdir().unwrap();
    let (kubectl, shutdown) = serve(server.clone(), dir.path(), "").await;
    let files =
        std::fs::read_dir(common::peers::peer("snapshot-crds")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.to_string_lossy().contains("_volume")).collect();
    files.sort();
    assert_eq!(files.len(), 6, "{files:?}");
    for file in &files {
        let made = kubectl.ok(&format!("create -f {}", file.display())).await;
        assert!(made.trim_end().ends_with("created"), "{made}");
    }
    kubectl.ok("wait --for=condition=established crd --all --timeout=20s").await;
    replay(&server, include_str!("custom/snapshots.json")).await;
    for file in &files {
        let applied =
            kubectl.ok(&format!("apply --server-side --force-conflicts -f {}", file.display())).await;
        assert!(applied.trim_end().ends_with("serverside-applied"), "{applied}");
    }
    let listed = kubectl.ok("get vsclass,vsc,vs,vgs,vgsc,vgsclass -A").await;
    assert!(listed.contains("DRIVER") && listed.contains("DELETIONPOLICY"), "{listed}");
    kubectl.ok("delete crd --all --timeout=20s").await;
    assert!(kubectl.ok("get crd").await.contains("No resources found"));
    shutdown.cancel();
}
