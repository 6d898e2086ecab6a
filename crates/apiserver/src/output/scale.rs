//! What `kubectl get --subresource=scale` prints.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::partial::version;
use super::table::{Include, single};
use crate::kinds::{Column, age, column};

const COLUMNS: &[Column] = &[
    column::text("Name", "Name of the object that is scaled."),
    column::number("Desired", "How many there are to be."),
    column::number("Available", "How many there are."),
    column::AGE,
];

/// The table of a scale; other answers that are not objects of their kind have none.
pub fn table(json: Bytes, include: Include, now: Timestamp) -> Bytes {
    let Ok(scale) = serde_json::from_slice::<Value>(&json) else { return json };
    if scale["kind"] != "Scale" {
        return json;
    }
    let born = scale["metadata"]["creationTimestamp"].as_str().and_then(|born| born.parse().ok());
    let cells = [
        scale["metadata"]["name"].clone(),
        scale["spec"]["replicas"].as_i64().unwrap_or(0).into(),
        scale["status"]["replicas"].clone(),
        age::since(born, now).into(),
    ];
    let metadata = format!("{{\"resourceVersion\":{}}}", version(&json));
    single(COLUMNS, &cells, &metadata, &json, include).into()
}
