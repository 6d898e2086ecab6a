//! Aggregated discovery: all groups and resources in one document.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::plain::names;
use super::subresources;
use crate::http::accept::MediaType;
use crate::http::body::{Body, full};
use crate::registry::{KindInfo, Registry};

/// Clients look at this to see whether they got what they asked for.
const MEDIA_TYPE: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

pub fn is_asked_for(media: &MediaType<'_>) -> bool {
    media.parameter("g") == "apidiscovery.k8s.io"
        && media.parameter("v") == "v2"
        && media.parameter("as") == "APIGroupDiscoveryList"
}

pub fn response(document: Value) -> Response<Body> {
    let mut response = Response::new(full(document.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

/// The core group, or all the others.
pub fn groups(registry: &Registry, core: bool) -> Value {
    let names = if core { vec![""] } else { names(registry) };
    let items: Vec<Value> = names.into_iter().map(|name| group(registry, name)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(registry: &Registry, group: &str) -> Value {
    let all = registry.group_versions();
    let versions: Vec<Value> = all
        .into_iter()
        .filter(|(name, _)| *name == group)
        .map(|(_, version)| {
            let infos = registry.kinds().map(|kind| kind.info());
            let here = infos.filter(|info| info.group == group && info.version == version);
            let resources: Vec<Value> = here.map(resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(info: &KindInfo) -> Value {
    let subs: Vec<Value> = subresources(info)
        .into_iter()
        .map(|(name, verbs, [group, version, kind])| {
            json!({
                "subresource": name,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "verbs": verbs,
            })
        })
        .collect();
    let mut out = json!({
        "resource": info.names.plural,
        "responseKind": {"group": info.group, "version": info.version, "kind": info.kind},
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.names.singular,
        "verbs": info.verbs,
    });
    for (field, values) in [("shortNames", &info.names.short), ("categories", &info.names.categories)] {
        if !values.is_empty() {
            out[field] = json!(values);
        }
    }
    if !subs.is_empty() {
        out["subresources"] = subs.into();
    }
    out
}
