//! What this server says of itself: groups, resources, OpenAPI, version, health.

mod aggregated;
mod health;
mod openapi;
mod order;
mod plain;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::core::Core;
use crate::http::accept::{self, MediaType};
use crate::http::body::{Body, full};
use crate::http::path::Path;
use crate::http::query::Query;
use crate::registry::{KindInfo, Registry};
use crate::status::Status;

pub use openapi::Documents;

/// The version this server claims, for clients that compare.
pub const GIT_VERSION: &str = "v1.36.0+bowline";

const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Answers everything that is not about a resource.
pub async fn run(
    core: &Arc<Core>,
    registry: &Arc<Registry>,
    head: &Parts,
    path: &Path,
) -> Result<Response<Body>, Status> {
    let found = match path {
        Path::Other(path) => return other(core, registry, head, path).await,
        _ if head.method != Method::GET => return Err(Status::method_not_allowed()),
        Path::CoreVersions | Path::Groups if is_aggregated(&head.headers)? => {
            let document = aggregated::groups(registry, *path == Path::CoreVersions);
            return Ok(aggregated::response(&head.headers, &document));
        }
        Path::CoreVersions => Some(plain::core_versions(address(head))),
        Path::Groups => Some(plain::groups(registry)),
        Path::Group(group) => plain::group(registry, group),
        Path::Resources { group, version } => {
            is_aggregated(&head.headers)?;
            plain::resources(registry, group, version)
        }
        Path::Resource(_) => None,
    };
    found.map_or_else(|| missing(registry, path), |value| Ok(json_response(&value)))
}

async fn other(
    core: &Arc<Core>,
    registry: &Arc<Registry>,
    head: &Parts,
    path: &str,
) -> Result<Response<Body>, Status> {
    let segments: Vec<&str> = path.split('/').collect();
    let query = || Query::parse(head.uri.query().unwrap_or_default());
    // Some answer with a slash at the end, and some do not.
    let exact = !head.uri.path().ends_with('/');
    match segments[..] {
        [""] => Ok(indented(&json!({"paths": paths(registry)}))),
        ["version"] if head.method != Method::GET => Err(Status::method_not_allowed()),
        ["version"] => Ok(indented(&version())),
        ["openapi", ref rest @ ..] if exact => openapi::run(core, registry, head, rest).await,
        ["metrics"] if exact => Ok(core.metrics.page(core).await),
        ["api" | "apis", ..] => missing(registry, &Path::Other(path.to_owned())),
        _ if exact => Ok(health::run(core, &segments, &query()).unwrap_or_else(not_found)),
        _ => Ok(not_found()),
    }
}

/// What upstream answers for a path that leads nowhere: a Status if at least the group is known.
pub fn missing(registry: &Registry, path: &Path) -> Result<Response<Body>, Status> {
    let known = |wanted: &str| registry.group_versions().iter().any(|(group, _)| *group == wanted);
    let is_known = match path {
        Path::Resources { group, .. } => known(group),
        Path::Resource(resource) => known(&resource.group),
        Path::Other(path) => match path.split('/').collect::<Vec<_>>()[..] {
            ["api", ..] => true,
            ["apis", group, ..] => known(group),
            _ => false,
        },
        Path::CoreVersions | Path::Groups | Path::Group(_) => false,
    };
    if is_known { Err(Status::no_such_resource()) } else { Ok(not_found()) }
}

/// What upstream answers for a path or a group it has never heard of.
pub fn not_found() -> Response<Body> {
    let mut response = Response::new(full("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Whether the client prefers the aggregated form to the plain one; refused if it takes neither.
fn is_aggregated(headers: &HeaderMap) -> Result<bool, Status> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header.trim().is_empty() {
        return Ok(false);
    }
    let preferred = accept::preferred(header).into_iter().filter(MediaType::is_json).find_map(|media| {
        let aggregated = aggregated::is_asked_for(&media);
        (aggregated || media.parameter("as").is_empty()).then_some(aggregated)
    });
    preferred.ok_or_else(accept::refusal)
}

/// Where the client found this server.
fn address(head: &Parts) -> &str {
    let host = || head.headers.get(HOST).and_then(|value| value.to_str().ok());
    head.uri.authority().map(|authority| authority.as_str()).or_else(host).unwrap_or_default()
}

/// Everything there is to ask for.
fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
            .map(str::to_owned)
            .into();
    paths.extend(health::paths());
    for (group, version) in registry.group_versions() {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn json_response(value: &Value) -> Response<Body> {
    response(value.to_string())
}

/// Upstream indents these whoever asks.
fn indented(value: &Value) -> Response<Body> {
    response(serde_json::to_string_pretty(value).unwrap_or_default())
}

fn response(json: String) -> Response<Body> {
    let mut response = Response::new(full(json));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    })
}

/// In Go's words.
pub fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{machine}", std::env::consts::OS)
}

/// Subresources of a kind, sorted by name: name, verbs, and the group, version and kind of what it takes.
pub fn subresources(info: &KindInfo) -> Vec<(&str, &[&str], [&str; 3])> {
    let own = info.subresources.iter();
    let mut all: Vec<(&str, &[&str], [&str; 3])> =
        own.map(|sub| (sub.name, sub.verbs, [sub.group, sub.version, sub.kind])).collect();
    if info.status {
        all.push(("status", &STATUS_VERBS, [&info.group, &info.version, &info.kind]));
    }
    if info.scale.is_some() {
        all.push(("scale", &STATUS_VERBS, ["autoscaling", "v1", "Scale"]));
    }
    all.sort_unstable();
    all
}
