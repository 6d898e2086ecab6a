//! Equality as upstream sees it, and fields that may not change.

use serde::Serialize;
use serde_json::Value;

use crate::field::Invalid;

/// Fields in which an empty text says something else than no text.
const EMPTY_COUNTS: [&str; 2] = ["storageClassName", "volumeAttributesClassName"];
/// Flags that upstream does not distinguish from absent ones, so its clients leave `false` out.
const FALSE_IS_ABSENT: [&str; 7] =
    ["hostNetwork", "hostPID", "hostIPC", "readOnly", "stdin", "stdinOnce", "tty"];

/// Whether two objects are the same once absent and empty fields count as one.
pub fn same<T: Serialize>(one: &T, other: &T) -> bool {
    pruned(one) == pruned(other)
}

/// `field is immutable`, unless nothing changed.
pub fn immutable<T: Serialize>(field: &str, new: &T, old: &T) -> Option<Invalid> {
    (!same(new, old)).then(|| Invalid::invalid(field, json(new), "field is immutable"))
}

/// An object as JSON; our types always have one.
pub fn json<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn pruned<T: Serialize>(object: &T) -> Value {
    let mut value = json(object);
    prune(&mut value);
    value
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|name, field| !absent(name, field));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn absent(name: &str, field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !EMPTY_COUNTS.contains(&name),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(flag) => !flag && FALSE_IS_ABSENT.contains(&name),
        Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_and_empty_are_one() {
        let table = [
            (json!({"a": []}), json!({}), true),
            (json!({"a": {"b": null}}), json!({}), true),
            (json!({"volumeName": ""}), json!({}), true),
            (json!({"storageClassName": ""}), json!({}), false),
            (json!({"hostNetwork": false}), json!({}), true),
            (json!({"runAsNonRoot": false}), json!({}), false),
            (json!({"a": 0}), json!({}), false),
            (json!({"a": [{"b": ""}]}), json!({"a": [{}]}), true),
        ];
        for (one, other, want) in table {
            assert_eq!(same(&one, &other), want, "{one} {other}");
        }
    }
}
