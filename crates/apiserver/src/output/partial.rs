//! `PartialObjectMetadata`: objects without their content.

use serde::Deserialize;
use serde_json::{Value, json};

pub const API_VERSION: &str = "meta.k8s.io/v1";

/// The rest of the object is skipped over, not parsed.
#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: Value,
}

pub fn metadata(json: &[u8]) -> Value {
    serde_json::from_slice(json).map(|object: WithMetadata| object.metadata).unwrap_or_default()
}

pub fn partial(json: &[u8]) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": API_VERSION, "metadata": metadata(json)})
}
