mod documents;
mod paths;
mod schemas;
mod serving;

use std::sync::Arc;

use serde_json::Value;

use super::cache::{Documents, Name};
use super::*;
use crate::kinds::register::register;
use crate::registry::Kind;

fn registry() -> Registry {
    let mut registry = Registry::new();
    register(&mut registry);
    registry
}

fn kinds(group: &str) -> Vec<Arc<dyn Kind>> {
    registry().kinds().filter(|kind| kind.info().group == group).cloned().collect()
}

/// The content of every `$ref` inside.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn assert_whole(document: &Value) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let path = target.strip_prefix('#').expect("a reference inside the document");
        assert!(document.pointer(path).is_some(), "{target} leads nowhere");
    }
}
