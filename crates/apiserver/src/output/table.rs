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

/// A table of one object whose columns its kind does not know.
pub fn single(
    columns: &[Column],
    cells: &[Value],
    list_metadata: &str,
    json: &[u8],
    include: Include,
) -> Vec<u8> {
    let mut out = head(&definitions(columns), list_metadata).into_bytes();
    write_row(cells, json, include, &mut out);
    out.extend_from_slice(b"]}");
    out
}

/// A table of objects, written row by row. `columns` is left out of all watch events but the first.
pub fn table<'a>(
    kind: &dyn Kind,
    columns: bool,
    list_metadata: &str,
    objects: impl Iterator<Item = &'a [u8]>,
    include: Include,
    now: Timestamp,
) -> Vec<u8> {
    let columns = if columns { self::columns(kind) } else { json!([]) };
    let mut out = head(&columns, list_metadata).into_bytes();
    for (position, object) in objects.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        row(kind, object, include, now, &mut out);
    }
    out.extend_from_slice(b"]}");
    out
}

/// What stands before the rows of a list.
pub fn begin(kind: &dyn Kind, list_metadata: &str) -> String {
    head(&columns(kind), list_metadata)
}

fn head(columns: &Value, list_metadata: &str) -> String {
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{list_metadata},\"columnDefinitions\":{columns},\"rows\":["
    )
}

fn columns(kind: &dyn Kind) -> Value {
    let own = &kind.info().columns;
    definitions(if own.is_empty() { &PLAIN[..] } else { &own[..] })
}

fn definitions(columns: &[Column]) -> Value {
    columns
        .iter()
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

pub fn row(kind: &dyn Kind, json: &[u8], include: Include, now: Timestamp, out: &mut Vec<u8>) {
    let cells = if kind.info().columns.is_empty() {
        let metadata = metadata(json);
        vec![metadata["name"].clone(), metadata["creationTimestamp"].clone()]
    } else {
        // What is stored always decodes; an empty row beats a failed list if it does not.
        kind.cells(json, now).unwrap_or_default()
    };
    write_row(&cells, json, include, out);
}

fn write_row(cells: &[Value], json: &[u8], include: Include, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"cells\":");
    // Writing values to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, cells);
    match include {
        Include::Nothing => {}
        Include::Metadata => {
            out.extend_from_slice(b",\"object\":");
            partial(json, out);
        }
        Include::Object => {
            out.extend_from_slice(b",\"object\":");
            out.extend_from_slice(json);
        }
    }
    out.push(b'}');
}
