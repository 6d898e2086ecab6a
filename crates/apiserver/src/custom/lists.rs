//! Lists whose elements are unique: sets by value, maps by key.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::Schema;
use super::validate::FINDINGS_MAX;
use crate::field::Invalid;

/// Every element that stands in a list a second time.
pub fn duplicates(object: &Value, schema: &Schema) -> Vec<Invalid> {
    let mut errors = Vec::new();
    walk(object, schema, "", &mut errors);
    errors
}

fn walk(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<Invalid>) {
    if errors.len() >= FINDINGS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let Some(below) = schema.member(key) else { continue };
                let at = match (schema.properties.contains_key(key), path) {
                    (true, "") => key.clone(),
                    (true, path) => format!("{path}.{key}"),
                    (false, path) => format!("{path}[{key}]"),
                };
                walk(value, below, &at, errors);
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => errors.extend(repeated(items.iter().cloned(), path)),
                Some("map") => errors.extend(repeated_keys(items, schema, path)),
                _ => {}
            }
            if let Some(below) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    walk(item, below, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

/// A third occurrence is not told apart from the second.
fn repeated(items: impl Iterator<Item = Value>, path: &str) -> Vec<Invalid> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, item) in items.enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 && errors.len() < FINDINGS_MAX {
            errors.push(Invalid::duplicate(format!("{path}[{index}]"), item));
        }
    }
    errors
}

fn repeated_keys(items: &[Value], schema: &Schema, path: &str) -> Vec<Invalid> {
    let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = stray {
        let why = "must be an object for an array of list-type map";
        return vec![Invalid::invalid(format!("{path}[{index}]"), items[index].clone(), why)];
    }
    let keys = items.iter().map(|item| {
        let present =
            schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    });
    repeated(keys, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"],
                "items": {"type": "object", "properties": {
                    "k": {"type": "string"}, "l": {"type": "integer"},
                    "inner": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
                }},
            },
            "free": {"type": "array", "items": {"type": "string"}},
        }}))
        .unwrap();
        let table: [(Value, &[&str]); 6] = [
            (json!({"set": ["a", "b"], "free": ["a", "a"]}), &[]),
            (
                json!({"set": ["a", "a", "a", "b", "b"]}),
                &["set[1]: Duplicate value: \"a\"", "set[4]: Duplicate value: \"b\""],
            ),
            (json!({"map": [{"k": "x", "l": 1}, {"k": "x", "l": 2}]}), &[]),
            (json!({"map": [{"k": "x"}, {"k": "x"}]}), &["map[1]: Duplicate value: {\"k\":\"x\"}"]),
            (
                json!({"map": ["x"]}),
                &["map[0]: Invalid value: \"x\": must be an object for an array of list-type map"],
            ),
            (json!({"map": [{"k": "x", "inner": [1, 1]}]}), &["map[0].inner[1]: Duplicate value: 1"]),
        ];
        for (object, want) in table {
            let found: Vec<String> = duplicates(&object, &schema).iter().map(ToString::to_string).collect();
            assert_eq!(found, want, "{object}");
        }
        let pairs: Vec<String> = (0..4000).map(|n| (n / 2).to_string()).collect();
        assert_eq!(duplicates(&json!({"set": pairs}), &schema).len(), FINDINGS_MAX);
    }
}
