//! Errors in the encoding that the client asks for, as kube-apiserver v1.36.3 sends them.

use http::Method;
use serde_json::{Value, json};

use crate::Server;
use crate::protobuf;
use crate::store::Store;
use crate::testing::{CONFIGMAPS, configmap, from_outside, post, server, server_on};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const BINARY: &str = "application/vnd.kubernetes.protobuf";
const TEXT: &str = "text/plain; charset=utf-8";

async fn ask(server: &Server, path: &str, accept: &str) -> (u16, String, Vec<u8>) {
    let (head, body) = from_outside(server, Method::GET, path, &[("accept", accept)]).await;
    let media = head.headers["content-type"].to_str().unwrap().to_owned();
    (head.status.as_u16(), media, body.to_vec())
}

fn opened(body: &[u8]) -> Value {
    protobuf::open(body, ("", "")).unwrap().object().unwrap()
}

#[tokio::test]
async fn errors_come_as_asked_for() {
    let server = server().await;
    let none = format!("{CONFIGMAPS}/none");
    let partial = format!("{BINARY};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let cases = [
        (&*none, "", 404, JSON),
        (&none, "*/*", 404, JSON),
        (&none, YAML, 404, YAML),
        (&none, BINARY, 404, BINARY),
        (&none, &format!("{JSON},{BINARY}"), 404, JSON),
        (&none, &format!("{BINARY},{JSON}"), 404, BINARY),
        (&none, &format!("{BINARY};q=0.1,{JSON};q=0.2"), 404, JSON),
        (&none, &partial, 404, JSON),
        (&none, &format!("{partial},{BINARY}"), 404, BINARY),
        (&none, "text/plain", 406, JSON),
        (&none, &format!("{BINARY};as=Table;g=meta.k8s.io;v=v1"), 406, JSON),
        ("/api/v1/nothings", BINARY, 404, BINARY),
        ("/nothings", BINARY, 404, TEXT),
        ("/nothings", YAML, 404, TEXT),
        (&format!("{CONFIGMAPS}?timeout=x"), BINARY, 400, BINARY),
        (&format!("{CONFIGMAPS}?watch=1"), YAML, 406, YAML),
    ];
    for (path, accept, code, media) in cases {
        let (found, sent, body) = ask(&server, path, accept).await;
        assert_eq!((found, &*sent), (code, media), "{path} {accept}");
        if media == BINARY {
            assert_eq!(opened(&body)["code"], code, "{path}");
        }
    }
}

#[tokio::test]
async fn every_encoding_says_the_same() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}/none");
    let (_, _, json) = ask(&server, &path, JSON).await;
    let (_, _, binary) = ask(&server, &path, BINARY).await;
    let (_, _, yaml) = ask(&server, &path, YAML).await;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(opened(&binary), json);
    let line = "message: configmaps \"none\" not found\n";
    assert!(String::from_utf8_lossy(&yaml).contains(line), "{yaml:?}");
}

#[tokio::test]
async fn a_delete_answers_in_protobuf() {
    let server = server().await;
    let made = post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a");
    let (head, body) = from_outside(&server, Method::DELETE, &path, &[("accept", BINARY)]).await;
    assert_eq!((head.status.as_u16(), &head.headers["content-type"]), (200, &BINARY.parse().unwrap()));
    let status = opened(&body);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_timer_knows_no_media_types() {
    let server = server().await;
    let path = format!("{CONFIGMAPS}?resourceVersion=99999&timeout=1s");
    for accept in [JSON, YAML, BINARY] {
        let (code, media, body) = ask(&server, &path, accept).await;
        assert_eq!((code, &*media), (504, TEXT), "{accept}");
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["reason"], &status["kind"]), (&json!("Timeout"), &Value::Null), "{accept}");
    }
}

#[tokio::test]
async fn a_watch_ends_with_a_status_in_its_own_encoding() {
    let dir = tempfile::tempdir().unwrap();
    let reopened = || async { server_on(Store::open_file(dir.path()).unwrap()).await };
    let old = post(&reopened().await, CONFIGMAPS, &configmap("a")).await.version();
    post(&reopened().await, CONFIGMAPS, &configmap("b")).await.ok();
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={old}");
    let (code, media, body) = ask(&reopened().await, &path, BINARY).await;
    assert_eq!((code, &*media), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let (length, event) = body.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, event.len());
    let start = event.windows(4).position(|part| part == b"k8s\0").unwrap();
    assert!(event[..start].starts_with(b"\x0a\x05ERROR\x12"));
    let status = opened(&event[start..]);
    assert_eq!((&status["reason"], &status["code"]), (&json!("Expired"), &json!(410)));
    assert_eq!(status["details"], Value::Null, "upstream says nothing more");
}

/// Indenting and YAML take an answer at once, several times over: a few tenants who ask for large ones must not take all
/// memory.
#[tokio::test]
async fn large_lists_are_neither_indented_nor_written_as_yaml() {
    const LARGE: usize = 900_000;
    let server = server().await;
    for number in 0..6 {
        let mut large = configmap(&format!("large-{number}"));
        large["data"] = json!({"text": "x".repeat(LARGE)});
        post(&server, CONFIGMAPS, &large).await.ok();
    }
    let pretty = format!("{CONFIGMAPS}?pretty=true");
    let (code, _, body) = ask(&server, &pretty, JSON).await;
    assert_eq!(code, 200);
    assert!(body.starts_with(b"{\"kind\":\"ConfigMapList\","), "not indented");
    let (code, _, body) = ask(&server, CONFIGMAPS, YAML).await;
    assert_eq!(code, 406);
    assert!(String::from_utf8_lossy(&body).contains("ask for application/json"));
    let small = format!("{pretty}&limit=1");
    assert!(ask(&server, &small, JSON).await.2.starts_with(b"{\n  \"kind\""), "indented");
    let first = format!("{CONFIGMAPS}?limit=1");
    assert_eq!(ask(&server, &first, YAML).await.0, 200);
    for (include, size) in [("Object", 6 * LARGE), ("Metadata", 0)] {
        let table = format!("{CONFIGMAPS}?includeObject={include}");
        let (_, _, body) = ask(&server, &table, &format!("{JSON};as=Table;g=meta.k8s.io;v=v1")).await;
        let table: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(6));
        assert!(body.len() >= size);
    }
}
