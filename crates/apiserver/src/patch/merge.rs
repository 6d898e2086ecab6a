//! JSON merge patch (RFC 7386): objects merge, null deletes, everything else replaces.

use serde_json::{Map, Value};

pub fn apply(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut out = match target {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for (key, change) in patch {
        if change.is_null() {
            out.remove(key);
        } else {
            let old = out.remove(key).unwrap_or(Value::Null);
            out.insert(key.clone(), apply(old, change));
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": 1}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {}}})),
        ];
        for (target, patch, want) in cases {
            assert_eq!(apply(target, &patch), want, "{patch}");
        }
    }
}
