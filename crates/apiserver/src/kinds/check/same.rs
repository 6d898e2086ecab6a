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

/// The fields, one `path: old -> new` each, in which two objects differ: what follows upstream's fixed texts.
pub fn difference<T: Serialize>(old: &T, new: &T) -> String {
    let mut lines = Vec::new();
    differ("", &pruned(old), &pruned(new), &mut lines);
    lines.join("\n")
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

fn differ(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                differ(&format!("{path}.{name}"), &old[name.as_str()], &new[name.as_str()], lines);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                differ(&format!("{path}[{index}]"), old, new, lines);
            }
        }
        _ => lines.push(format!("{}: {old} -> {new}", path.trim_start_matches('.'))),
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

    #[test]
    fn difference_names_each_field() {
        let old = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x"});
        let new = json!({"a": {"b": 2, "c": [1, 3]}, "e": "y"});
        let want = "a.b: 1 -> 2\na.c[1]: 2 -> 3\nd: \"x\" -> null\ne: null -> \"y\"";
        assert_eq!(difference(&old, &new), want);
    }
}
