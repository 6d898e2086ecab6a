//! Headers that let clients keep what they have.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};

use super::*;
use crate::server::Server;
use crate::testing::server;

async fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Bytes) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server.handle(request.body(Full::new(Bytes::new())).unwrap()).await;
    let (head, body) = response.into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes())
}

const STORAGE: &str = "/openapi/v3/apis/storage.k8s.io/v1";

/// The address of a document under its hash.
async fn address(server: &Server) -> String {
    let (_, _, index) = ask(server, "/openapi/v3", &[]).await;
    let index: Value = serde_json::from_slice(&index).unwrap();
    index["paths"]["apis/storage.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_document_under_its_hash_is_kept_for_good() {
    let server = server().await;
    let address = address(&server).await;
    let (code, headers, body) = ask(&server, &address, &[]).await;
    assert_eq!((code, &headers["cache-control"]), (StatusCode::OK, &IMMUTABLE));
    assert_eq!(headers["expires"], "Fri, 01 Jan 2027 00:00:00 UTC");
    let document: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(document["openapi"], "3.0.0");

    let hash = address.split_once("hash=").unwrap().1;
    assert_eq!(headers["etag"], format!("\"{hash}\""));
    let (code, headers, body) = ask(&server, STORAGE, &[("if-none-match", &format!("\"{hash}\""))]).await;
    assert_eq!((code, body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(headers["etag"], format!("\"{hash}\""));

    let (code, headers, body) = ask(&server, &format!("{STORAGE}?hash=OLD"), &[]).await;
    assert_eq!((code, body.len()), (StatusCode::MOVED_PERMANENTLY, 0));
    assert_eq!(headers["location"], address);
}

#[tokio::test]
async fn compressed_for_whoever_takes_it() {
    let server = server().await;
    let (_, headers, packed) = ask(&server, STORAGE, &[("accept-encoding", "gzip")]).await;
    assert_eq!(headers["content-encoding"], "gzip");
    let (_, headers, plain) = ask(&server, STORAGE, &[]).await;
    assert!(!headers.contains_key("content-encoding"));
    assert_eq!(gzip::unpack(&packed), plain);
}

#[tokio::test]
async fn what_is_not_there_or_not_served() {
    let server = server().await;
    let binary = ("accept", BINARY_NAMES[0]);
    let cases = [
        ("/openapi/v3/apis/none.io/v1", ("accept", "*/*"), StatusCode::NOT_FOUND),
        ("/openapi/v3/api", ("accept", "*/*"), StatusCode::NOT_FOUND),
        (STORAGE, ("accept", "application/xml"), StatusCode::NOT_ACCEPTABLE),
        (STORAGE, binary, StatusCode::NOT_ACCEPTABLE),
        ("/openapi/v2", ("accept", "application/xml"), StatusCode::NOT_ACCEPTABLE),
    ];
    for (path, accept, want) in cases {
        let (code, _, body) = ask(&server, path, &[accept]).await;
        assert_eq!((code, body.len()), (want, 0), "{path} {accept:?}");
    }
    let (code, headers, body) = ask(&server, "/openapi/v2", &[binary]).await;
    assert_eq!((code, &headers["content-type"]), (StatusCode::OK, &BINARY));
    assert_eq!(body[..5], *b"\x0a\x032.0");
    let (code, _, body) = ask(&server, "/openapi/v2", &[]).await;
    assert_eq!((code, &body[..10]), (StatusCode::OK, &b"{\"definiti"[..]));
    let (code, _, body) = ask(&server, "/openapi", &[]).await;
    assert_eq!((code, &body[..]), (StatusCode::NOT_FOUND, &b"404 page not found\n"[..]));
}
