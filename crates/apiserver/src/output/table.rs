//! `Table`: what `kubectl get` prints.

use std::borrow::Cow::Borrowed;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, metadata, partial};
use crate::kinds::Column;
use crate::registry::Kind;

/// How much of the object comes with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub fn parse(parameter: &str) -> Self {
        match parameter {
            "None" => Self::Nothing,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// For kinds without columns of their own.
const PLAIN: [Column; 2] = [
    Column {
        name: Borrowed("Name"),
        type_: Borrowed("string"),
        format: Borrowed("name"),
        description: Borrowed("Name must be unique within a namespace."),
        priority: 0,
    },
    Column {
        name: Borrowed("Created At"),
        type_: Borrowed("date"),
        format: Borrowed(""),
        description: Borrowed("The time at which the object was created."),
        priority: 0,
    },
];

/// A table; `columns` is left out of all watch events but the first.
pub fn table(columns: Option<Value>, rows: Vec<Value>, list_metadata: Value) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": API_VERSION,
        "metadata": list_metadata,
        "columnDefinitions": columns.unwrap_or_else(|| json!([])),
        "rows": rows,
    })
}

pub fn columns(kind: &dyn Kind) -> Value {
    let own = &kind.info().columns;
    let all = if own.is_empty() { &PLAIN[..] } else { &own[..] };
    all.iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.type_,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        })
        .collect()
}

pub fn row(kind: &dyn Kind, json: &[u8], include: Include, now: Timestamp) -> Value {
    let cells = if kind.info().columns.is_empty() {
        let metadata = metadata(json);
        vec![metadata["name"].clone(), metadata["creationTimestamp"].clone()]
    } else {
        // What is stored always decodes; an empty row beats a failed list if it does not.
        kind.cells(json, now).unwrap_or_default()
    };
    let object = match include {
        Include::Nothing => return json!({"cells": cells}),
        Include::Metadata => partial(json),
        Include::Object => serde_json::from_slice(json).unwrap_or_default(),
    };
    json!({"cells": cells, "object": object})
}
