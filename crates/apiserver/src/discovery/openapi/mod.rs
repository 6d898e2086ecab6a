//! `/openapi/v3` and `/openapi/v2`: what `kubectl explain`, `apply` and `diff` read.
//!
//! Reading order: `build` (from kinds to a document), `definitions` and `property` (schemas), `operations` (paths),
//! `v3`, `v2`, `gnostic` (how they are written), `cache`, and here how they are served.

mod build;
mod cache;
mod definitions;
mod facts;
mod gnostic;
mod operations;
mod parameters;
mod property;
mod subresources;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use std::sync::Arc;

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, LOCATION, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::json_response;
use crate::core::Core;
use crate::http::accept::media_types;
use crate::http::body::{Body, full};
use crate::http::query::Query;
use crate::http::{etag, gzip};
use crate::registry::Registry;
use crate::status::Status;

pub use cache::Documents;
use cache::{Document, Name};

const TITLE: &str = "Kubernetes";
const VERSION: &str = "1.36";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BINARY: HeaderValue =
    HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
/// The names that clients have asked for the binary form by.
const BINARY_NAMES: [&str; 3] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.googleapis.gnostic.OpenAPIv2@68f4ded+protobuf",
];
/// A document under its hash never changes.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, immutable");
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// `rest` is the path behind `/openapi/`.
pub async fn run(
    core: &Arc<Core>,
    registry: &Arc<Registry>,
    head: &Parts,
    rest: &[&str],
) -> Result<Response<Body>, Status> {
    match *rest {
        ["v3"] => index(core, registry).await,
        ["v3", "api", version] => document(core, registry, head, "", version).await,
        ["v3", "apis", group, version] => document(core, registry, head, group, version).await,
        // Upstream's answer has no body.
        ["v3", ..] => Ok(bare(StatusCode::NOT_FOUND)),
        ["v2"] => v2(core, registry, head).await,
        _ => Ok(super::not_found()),
    }
}

/// The documents there are, each under its hash, so that clients may keep it for good.
async fn index(core: &Arc<Core>, registry: &Arc<Registry>) -> Result<Response<Body>, Status> {
    let mut paths = json!({});
    for (group, version) in registry.group_versions() {
        let name = Name::V3 { group: group.to_owned(), version: version.to_owned() };
        if let Some(document) = made(core, registry, name).await? {
            paths[path(group, version)] = json!({"serverRelativeURL": address(group, version, &document)});
        }
    }
    Ok(json_response(&json!({"paths": paths})))
}

fn path(group: &str, version: &str) -> String {
    operations::root(group, version).trim_start_matches('/').to_owned()
}

fn address(group: &str, version: &str, document: &Document) -> String {
    format!("/openapi/v3/{}?hash={}", path(group, version), document.hash)
}

/// Making a document takes long enough to keep it away from the threads that serve.
async fn made(
    core: &Arc<Core>,
    registry: &Arc<Registry>,
    name: Name,
) -> Result<Option<Arc<Document>>, Status> {
    let (core, registry) = (core.clone(), registry.clone());
    let made = tokio::task::spawn_blocking(move || core.openapi.get(&registry, &name));
    made.await.map_err(Status::internal)
}

async fn document(
    core: &Arc<Core>,
    registry: &Arc<Registry>,
    head: &Parts,
    group: &str,
    version: &str,
) -> Result<Response<Body>, Status> {
    let name = Name::V3 { group: group.to_owned(), version: version.to_owned() };
    let Some(document) = made(core, registry, name).await? else { return Ok(bare(StatusCode::NOT_FOUND)) };
    if wants_binary(&head.headers).is_none_or(|binary| binary) {
        return Ok(bare(StatusCode::NOT_ACCEPTABLE));
    }
    let wanted = Query::parse(head.uri.query().unwrap_or_default());
    let wanted = wanted.get("hash");
    if !wanted.is_empty() && wanted != document.hash {
        let mut moved = bare(StatusCode::MOVED_PERMANENTLY);
        let address = HeaderValue::from_str(&address(group, version, &document)).map_err(Status::internal)?;
        moved.headers_mut().insert(LOCATION, address);
        return Ok(moved);
    }
    let mut response = serve(&document, &head.headers, JSON);
    if wanted == document.hash {
        response.headers_mut().insert(CACHE_CONTROL, IMMUTABLE);
        if let Some(time) = in_a_year(core.clock.now()) {
            response.headers_mut().insert(EXPIRES, time);
        }
    }
    Ok(response)
}

async fn v2(core: &Arc<Core>, registry: &Arc<Registry>, head: &Parts) -> Result<Response<Body>, Status> {
    let (name, media) = match wants_binary(&head.headers) {
        None => return Ok(bare(StatusCode::NOT_ACCEPTABLE)),
        Some(true) => (Name::V2Binary, BINARY),
        Some(false) => (Name::V2, JSON),
    };
    let document = made(core, registry, name).await?;
    Ok(document.map_or_else(super::not_found, |document| serve(&document, &head.headers, media)))
}

/// Whether the client wants protobuf rather than JSON; `None` if it wants neither.
fn wants_binary(headers: &HeaderMap) -> Option<bool> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header.trim().is_empty() {
        return Some(false);
    }
    media_types(header).find_map(|media| match media.essence {
        essence if BINARY_NAMES.contains(&essence) => Some(true),
        _ => media.is_json().then_some(false),
    })
}

fn serve(document: &Document, headers: &HeaderMap, media: HeaderValue) -> Response<Body> {
    let mut response = if etag::is_known(headers, &document.hash) {
        etag::not_modified()
    } else if gzip::accepted(headers) {
        let mut response = Response::new(full(document.packed.clone()));
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(CONTENT_TYPE, media);
        response
    } else {
        let mut response = Response::new(full(gzip::unpack(&document.packed)));
        response.headers_mut().insert(CONTENT_TYPE, media);
        response
    };
    let mut put = |name: HeaderName, value: HeaderValue| _ = response.headers_mut().append(name, value);
    put(ETAG, etag::quoted(&document.hash));
    put(VARY, HeaderValue::from_static("Accept-Encoding"));
    put(VARY, HeaderValue::from_static("Accept"));
    response
}

fn bare(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = code;
    response
}

fn in_a_year(now: Timestamp) -> Option<HeaderValue> {
    let then = now.checked_add(YEAR).ok()?;
    HeaderValue::from_str(&then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()).ok()
}
