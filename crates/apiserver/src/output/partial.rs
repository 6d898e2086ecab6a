//! `PartialObjectMetadata`: objects without their content.

use bowline_api::span::member;
use serde_json::Value;

pub const API_VERSION: &str = "meta.k8s.io/v1";

/// The metadata as it stands.
fn raw(json: &[u8]) -> &[u8] {
    member(json, "metadata").unwrap_or(b"{}")
}

pub fn metadata(json: &[u8]) -> Value {
    serde_json::from_slice(raw(json)).unwrap_or_default()
}

/// The resourceVersion in the metadata of an object, as JSON.
pub fn version(json: &[u8]) -> &str {
    let found = member(raw(json), "resourceVersion").and_then(|text| std::str::from_utf8(text).ok());
    found.unwrap_or("\"\"")
}

/// Appends the partial form of an object.
pub fn partial(json: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
    );
    out.extend_from_slice(raw(json));
    out.push(b'}');
}
