//! OpenAPI v3, just enough that `kubectl` trusts the server to validate fields: for every kind a PATCH that
//! takes `fieldValidation`. Schemas are not served, so `kubectl explain` has nothing to say.

use http::Response;
use serde_json::{Value, json};

use super::{GIT_VERSION, json_response};
use crate::http::accept;
use crate::http::body::Body;
use crate::registry::{KindInfo, Registry};
use crate::status::Status;

/// The documents there are.
pub fn index(registry: &Registry) -> Value {
    let mut paths = json!({});
    for (group, version) in registry.group_versions() {
        let path =
            if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        // The hash lets clients cache a document for good; it stands for the version of this server.
        let url = format!("/openapi/v3/{path}?hash={}", GIT_VERSION.replace('+', "-"));
        paths[path] = json!({"serverRelativeURL": url});
    }
    json!({"paths": paths})
}

pub fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.has_group_version(group, version) {
        return None;
    }
    let mut paths = json!({});
    for kind in registry.kinds() {
        let info = kind.info();
        if info.group == group && info.version == version {
            paths[path(info)] = json!({"patch": patch(info)});
        }
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": {}},
    }))
}

fn path(info: &KindInfo) -> String {
    let root = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    let namespace = if info.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{root}{namespace}/{}/{{name}}", info.names.plural)
}

fn patch(info: &KindInfo) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({
        "operationId": format!("patch{}", info.kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": info.group, "version": info.version, "kind": info.kind},
    })
}

/// The old document, empty but valid. Clients that insist on its protobuf form go on without it.
pub fn v2(header: &str) -> Result<Response<Body>, Status> {
    accept::form(Some(header), false)?;
    Ok(json_response(&json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": {},
        "definitions": {},
    })))
}
