//! What all kinds have in common: reading, filling and checking `metadata`.

mod fill;
mod owners;
mod validate;

use serde_json::Value;

use crate::status::Status;

pub use fill::{carry_over, fill_new, timestamp};
pub use owners::fold_owners;
pub use validate::{validate, validate_update};

/// The text at `metadata.<field>`, empty if absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// The resourceVersion a client sent with an object: absent and `0` mean "whatever is there".
pub fn version(object: &Value) -> Result<Option<u64>, Status> {
    match text(object, "resourceVersion") {
        "" | "0" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Status::bare(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

/// Sets `metadata.<field>`, or removes it.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

#[cfg(test)]
mod tests;
