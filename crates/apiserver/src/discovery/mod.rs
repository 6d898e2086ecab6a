//! What this server says of itself: groups, resources, OpenAPI, version, health.

mod aggregated;
mod openapi;
mod plain;

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::core::Core;
use crate::http::accept::{self, MediaType};
use crate::http::body::{Body, full};
use crate::http::path::Path;
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
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let accept = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = match path {
        Path::CoreVersions if wants_aggregated(accept) => {
            return Ok(aggregated::response(aggregated::groups(registry, true)));
        }
        Path::Groups if wants_aggregated(accept) => {
            return Ok(aggregated::response(aggregated::groups(registry, false)));
        }
        Path::CoreVersions => Some(plain::core_versions()),
        Path::Groups => Some(plain::groups(registry)),
        Path::Group(group) => plain::group(registry, group),
        Path::Resources { group, version } => plain::resources(registry, group, version),
        Path::Other(path) => match path.split('/').collect::<Vec<_>>()[..] {
            ["version"] => Some(version()),
            ["healthz" | "livez" | "readyz", ..] => return Ok(text(StatusCode::OK, "ok")),
            ["openapi", ref rest @ ..] => return openapi::run(core, registry, head, rest).await,
            _ => None,
        },
        Path::Resource(_) => None,
    };
    Ok(found.map_or_else(not_found, |value| json_response(&value)))
}

/// What upstream answers for a path or a group it has never heard of.
pub fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn wants_aggregated(header: &str) -> bool {
    let first = accept::media_types(header).find(MediaType::is_json);
    first.is_some_and(|media| aggregated::is_asked_for(&media))
}

fn text(code: StatusCode, body: &'static str) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Subresources of a kind, sorted by name: name, verbs, and the group, version and kind of what it takes.
fn subresources(info: &KindInfo) -> Vec<(&str, &[&str], [&str; 3])> {
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
