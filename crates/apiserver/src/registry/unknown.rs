//! Fields a client sent that its kind does not have.

use serde_json::Value;

/// Paths that stand in `input` but not in what came out of the typed object, e.g. `spec.containers[0].foo`.
///
/// A null is never unknown: it means absent, and typed objects do not keep it.
pub fn unknown_fields(input: &Value, typed: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(input, typed, &mut String::new(), &mut found);
    found
}

fn compare(input: &Value, typed: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (input, typed) {
        (Value::Object(input), Value::Object(typed)) => {
            for (key, value) in input {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                match typed.get(key) {
                    Some(kept) => compare(value, kept, path, found),
                    None if !value.is_null() => found.push(path.clone()),
                    None => {}
                }
                path.truncate(length);
            }
        }
        (Value::Array(input), Value::Array(typed)) => {
            for (index, (value, kept)) in input.iter().zip(typed).enumerate() {
                path.push_str(&format!("[{index}]"));
                compare(value, kept, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let input = json!({"a": 1, "b": null, "spec": {"x": 1, "list": [{"ok": 1}, {"ok": 1, "bad": {}}]}});
        let typed = json!({"a": 1, "spec": {"list": [{"ok": 1}, {"ok": 1, "extra": 2}]}});
        assert_eq!(unknown_fields(&input, &typed), ["spec.list[1].bad", "spec.x"]);
    }
}
