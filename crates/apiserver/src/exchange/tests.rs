use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::*;
use crate::server::Server;
use crate::testing::{CONFIGMAPS, configmap, from_outside, masters_at, post, server};

async fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> (http::response::Parts, Bytes) {
    from_outside(server, Method::GET, path, headers).await
}

#[tokio::test]
async fn every_answer_has_an_id_and_is_not_cached() {
    let server = server().await;
    let (head, _) = ask(&server, "/api/v1/namespaces/default", &[]).await;
    assert_eq!(head.headers["cache-control"], "no-cache, private");
    assert_eq!(head.headers["audit-id"].len(), 36);
    let (again, _) = ask(&server, "/nonsense", &[]).await;
    assert_ne!(again.headers["audit-id"], head.headers["audit-id"]);
    let (own, _) = ask(&server, "/version", &[("audit-id", "mine")]).await;
    assert_eq!(own.headers["audit-id"], "mine");
    let long = "x".repeat(65);
    let (long, _) = ask(&server, "/version", &[("audit-id", &long)]).await;
    assert_eq!(long.headers["audit-id"].len(), 36);
}

#[tokio::test]
async fn people_get_lines() {
    let server = server().await;
    let namespace = "/api/v1/namespaces/default";
    let cases = [
        ("", "kubectl/v1.36", false),
        ("?pretty=true", "kubectl/v1.36", true),
        ("?pretty=1", "", true),
        ("?pretty", "kubectl/v1.36", false),
        ("", "curl/8.0", true),
        ("", "Mozilla/5.0 (X11)", true),
        ("?pretty=false", "curl/8.0", false),
    ];
    for (query, agent, want) in cases {
        let (_, body) = ask(&server, &format!("{namespace}{query}"), &[("user-agent", agent)]).await;
        let text = String::from_utf8(body.to_vec()).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        let pretty = serde_json::to_string_pretty(&object).unwrap();
        let expected = if want { pretty } else { format!("{object}\n") };
        assert_eq!(text, expected, "{query} {agent}");
    }
    let (_, refusal) = ask(&server, "/api/v1/namespaces/none?pretty=1", &[]).await;
    assert!(refusal.starts_with(b"{\n  \"apiVersion\""), "{refusal:?}");
    let (_, document) = ask(&server, "/openapi/v3/api/v1?pretty=1", &[]).await;
    assert!(!document.contains(&b'\n'));
}

/// A server whose list of config maps is large.
async fn large() -> Server {
    let server = server().await;
    let mut object = configmap("large");
    object["data"] = json!({"text": "claim ".repeat(30_000)});
    post(&server, CONFIGMAPS, &object).await.ok();
    server
}

async fn from(server: &Server, origin: Option<&str>, path: &str) -> http::response::Parts {
    let request = Request::get(path).header("accept-encoding", "gzip");
    let mut request = request.body(Full::new(Bytes::new())).unwrap();
    let address = origin.map(|origin| SocketAddr::new(origin.parse().unwrap(), 1));
    request.extensions_mut().insert(masters_at(address));
    let (head, body) = server.handle(request).await.into_parts();
    body.collect().await.unwrap();
    head
}

#[tokio::test]
async fn large_answers_travel_compressed() {
    let server = large().await;
    let (head, packed) = ask(&server, CONFIGMAPS, &[("accept-encoding", "gzip")]).await;
    assert_eq!(
        (&head.headers["content-encoding"], &head.headers["vary"]),
        (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    let (head, plain) = ask(&server, CONFIGMAPS, &[]).await;
    assert!(!head.headers.contains_key("content-encoding"));
    assert_eq!(gzip::unpack(&packed), plain);
    assert!(packed.len() < plain.len() / 50);

    let cases = [
        ("far away", Some("10.1.2.3"), CONFIGMAPS, true),
        ("on the same machine", Some("127.0.0.1"), CONFIGMAPS, false),
        ("small", Some("10.1.2.3"), "/api/v1/namespaces", false),
    ];
    for (name, origin, path, want) in cases {
        let head = from(&server, origin, path).await;
        assert_eq!(head.headers.contains_key("content-encoding"), want, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_may_take_as_long_as_it_asks_for() {
    let server = server().await;
    // A version that does not come is waited for.
    let (head, body) = ask(&server, &format!("{CONFIGMAPS}?resourceVersion=99999&timeout=1s"), &[]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((head.status, &status["reason"]), (StatusCode::GATEWAY_TIMEOUT, &json!("Timeout")));
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");

    let (head, body) = ask(&server, &format!("{CONFIGMAPS}?timeout=abc"), &[]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(head.status, StatusCode::BAD_REQUEST);
    let message = "invalid timeout specified in the request URL - time: invalid duration \"abc\"";
    assert_eq!(status["message"], message);
    for fine in ["0", "-3s", "1h", "32s"] {
        let (head, _) = ask(&server, &format!("{CONFIGMAPS}?timeout={fine}"), &[]).await;
        assert_eq!(head.status, StatusCode::OK, "{fine}");
    }
}
