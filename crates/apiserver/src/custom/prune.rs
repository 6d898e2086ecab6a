//! Takes out of an object what its schema does not know.

use serde_json::{Map, Value};

use super::schema::{META_FIELDS, Schema};
use crate::json::size_within;

/// Drops unknown fields of an object and lists their paths, sorted. What the server knows of every object stays.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    let Value::Object(fields) = object else { return dropped };
    walk_object(fields, Some(schema), Whole::Root, &mut String::new(), &mut dropped);
    dropped.sort();
    dropped
}

/// The same for a value that is no object of its own, e.g. a default.
pub fn prune_value(value: &mut Value, schema: &Schema) {
    walk(value, Some(schema), &mut String::new(), &mut Vec::new());
}

/// Whether an object has metadata of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Root,
    Embedded,
    Part,
}

impl Whole {
    fn of(schema: &Schema) -> Self {
        if schema.embedded_resource { Self::Embedded } else { Self::Part }
    }
}

fn walk(value: &mut Value, schema: Option<&Schema>, path: &mut String, dropped: &mut Vec<String>) {
    match (value, schema) {
        (Value::Object(fields), schema) => {
            let whole = schema.map_or(Whole::Part, Whole::of);
            walk_object(fields, schema, whole, path, dropped);
        }
        (Value::Array(items), Some(schema)) if schema.preserves_unknown() => {
            each(items, path, |item, path| keep(item, schema.items(), path, dropped));
        }
        (Value::Array(items), schema) => {
            each(items, path, |item, path| walk(item, schema.and_then(Schema::items), path, dropped));
        }
        _ => {}
    }
}

fn walk_object(
    fields: &mut Map<String, Value>,
    schema: Option<&Schema>,
    whole: Whole,
    path: &mut String,
    dropped: &mut Vec<String>,
) {
    let preserves = schema.is_some_and(Schema::preserves_unknown);
    fields.retain(|key, value| {
        if whole != Whole::Part && META_FIELDS.contains(&key.as_str()) {
            return true;
        }
        let length = enter(path, key);
        let named = schema.and_then(|schema| schema.properties.get(key));
        let stays = match (named, schema.and_then(|schema| schema.additional_properties.as_ref())) {
            (Some(property), _) => {
                walk(value, Some(property), path, dropped);
                true
            }
            (None, Some(_)) => {
                walk(value, schema.and_then(Schema::additional), path, dropped);
                true
            }
            (None, None) if preserves => true,
            (None, None) => {
                dropped.push(path.clone());
                false
            }
        };
        path.truncate(length);
        stays
    });
}

/// Below a list whose unknown content stays, only what is described is looked at.
fn keep(value: &mut Value, schema: Option<&Schema>, path: &mut String, dropped: &mut Vec<String>) {
    match (value, schema) {
        (_, None) => {}
        (Value::Array(items), Some(schema)) => {
            each(items, path, |item, path| keep(item, schema.items(), path, dropped));
        }
        (Value::Object(fields), Some(schema)) => {
            for (key, value) in fields {
                if schema.embedded_resource && META_FIELDS.contains(&key.as_str()) {
                    continue;
                }
                let described = schema.properties.contains_key(key) || schema.additional_properties.is_some();
                if described {
                    let length = enter(path, key);
                    walk(value, schema.member(key), path, dropped);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}

fn each(items: &mut [Value], path: &mut String, mut visit: impl FnMut(&mut Value, &mut String)) {
    for (index, item) in items.iter_mut().enumerate() {
        let length = path.len();
        path.push_str(&format!("[{index}]"));
        visit(item, path);
        path.truncate(length);
    }
}

/// Appends a key; returns how long the path was.
fn enter(path: &mut String, key: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(key);
    length
}

/// Drops nulls where the schema allows none and has nothing to put in their place.
pub fn prune_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let below = schema.and_then(|schema| schema.member(key));
            let unwanted = below.is_some_and(|schema| !schema.nullable && schema.default.is_none());
            if value.is_null() && unwanted {
                return false;
            }
            prune_nulls(value, below);
            true
        }),
        Value::Array(items) => {
            let below = schema.and_then(Schema::items);
            items.iter_mut().for_each(|item| prune_nulls(item, below));
        }
        _ => {}
    }
}

/// Puts defaults where nothing is, or where a null is not allowed. Fills in at most `max` bytes of JSON, because a list
/// of empty objects can be small and its defaults can be huge; `false` if that was not enough.
#[must_use]
pub fn fill_defaults(value: &mut Value, schema: &Schema, max: usize) -> bool {
    let mut filling = Filling { left: Some(max) };
    filling.walk(value, schema);
    filling.left.is_some()
}

struct Filling {
    /// How many bytes may still be added; `None` once more were wanted.
    left: Option<usize>,
}

impl Filling {
    fn walk(&mut self, value: &mut Value, schema: &Schema) {
        match value {
            Value::Object(fields) => {
                self.add_missing(fields, schema);
                for (key, value) in fields {
                    if let Some(below) = schema.member(key).filter(|_| self.left.is_some()) {
                        self.replace_null(value, below);
                        self.walk(value, below);
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = schema.items() else { return };
                for item in items {
                    if self.left.is_none() {
                        return;
                    }
                    self.replace_null(item, below);
                    self.walk(item, below);
                }
            }
            _ => {}
        }
    }

    fn add_missing(&mut self, fields: &mut Map<String, Value>, schema: &Schema) {
        for (name, property) in &schema.properties {
            let Some(default) = &property.default else { continue };
            let missing = match fields.get(name) {
                None => true,
                Some(value) => value.is_null() && !property.nullable,
            };
            if missing && self.takes(name.len(), default) {
                fields.insert(name.clone(), default.clone());
            }
        }
    }

    fn replace_null(&mut self, value: &mut Value, schema: &Schema) {
        if let (Value::Null, false, Some(default)) = (&value, schema.nullable, &schema.default)
            && self.takes(0, default)
        {
            *value = default.clone();
        }
    }

    /// Counts a default under a name of this length, if there is room for it.
    fn takes(&mut self, name: usize, default: &Value) -> bool {
        let after_name = self.left.and_then(|left| left.checked_sub(name));
        self.left = after_name.and_then(|left| Some(left - size_within(default, left)?));
        self.left.is_some()
    }
}

#[cfg(test)]
mod tests;
