//! Aggregated discovery: all groups and resources in one document.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use http::{HeaderMap, Response};
use serde_json::{Value, json};

use super::order::{groups as group_names, versions};
use super::subresources;
use crate::http::accept::MediaType;
use crate::http::body::{Body, full};
use crate::http::etag;
use crate::registry::{Kind, Registry};

/// Clients look at this to see whether they got what they asked for.
const MEDIA_TYPE: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

pub fn is_asked_for(media: &MediaType<'_>) -> bool {
    media.parameter("g") == "apidiscovery.k8s.io"
        && media.parameter("v") == "v2"
        && media.parameter("as") == "APIGroupDiscoveryList"
}

/// Clients keep it, and ask again with the tag they have.
pub fn response(headers: &HeaderMap, document: &Value) -> Response<Body> {
    let content = format!("{document}\n");
    let hash = etag::hash(content.as_bytes());
    let mut response = if etag::is_known(headers, &hash) {
        etag::not_modified()
    } else {
        let mut response = Response::new(full(content));
        response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
        response
    };
    response.headers_mut().insert(ETAG, etag::quoted(&hash));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// The core group, or all the others.
pub fn groups(registry: &Registry, core: bool) -> Value {
    let names = if core { vec![""] } else { group_names(registry) };
    let items: Vec<Value> = names.into_iter().map(|name| group(registry, name)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = versions(registry, group)
        .into_iter()
        .map(|version| {
            let here = registry.kinds().filter(|kind| {
                let info = kind.info();
                info.group == group && info.version == version
            });
            let resources: Vec<Value> = here.map(|kind| resource(kind.as_ref())).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

/// Upstream names group and version only where they are not those of the document, but for kinds that clients define.
fn response_kind(of: &dyn Kind, [group, version, kind]: [&str; 3]) -> Value {
    let info = of.info();
    if of.storage_version().is_none() && (group, version) == (&*info.group, &*info.version) {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}

fn resource(kind: &dyn Kind) -> Value {
    let info = kind.info();
    let subs: Vec<Value> = subresources(info)
        .into_iter()
        .map(|(name, verbs, of)| {
            json!({"subresource": name, "responseKind": response_kind(kind, of), "verbs": verbs})
        })
        .collect();
    let mut out = json!({
        "resource": info.names.plural,
        "responseKind": response_kind(kind, [&info.group, &info.version, &info.kind]),
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
