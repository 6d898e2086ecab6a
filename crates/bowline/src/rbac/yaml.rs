//! Objects as YAML that people read: blocks for structure, one line for each rule.

use serde_json::Value;

/// Documents, in order.
pub fn print(documents: &[Value]) -> String {
    documents.iter().map(document).collect::<Vec<_>>().join("---\n")
}

fn document(object: &Value) -> String {
    let Value::Object(fields) = object else { return flow(object) };
    // Kind and name first, as everywhere.
    const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
    let first = FIRST.iter().filter_map(|key| fields.get_key_value(*key));
    let rest = fields.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
    first.chain(rest).map(|(key, value)| field(key, value)).collect()
}

fn field(key: &str, value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: String = items.iter().map(|item| format!("- {}\n", flow(item))).collect();
            format!("{key}:\n{items}")
        }
        Value::Object(fields) => {
            let fields: String =
                fields.iter().map(|(key, value)| format!("  {key}: {}\n", flow(value))).collect();
            format!("{key}:\n{fields}")
        }
        other => format!("{key}: {}\n", flow(other)),
    }
}

/// In one line.
fn flow(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", joined(items.iter().map(flow).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", joined(fields.collect()))
        }
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether YAML takes it for this very text without quotes. A colon is fine unless a space follows.
fn is_plain(text: &str) -> bool {
    let letter = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-./:".contains(c);
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    letter
        && text.chars().all(plain)
        && !text.ends_with(':')
        && !words.contains(&text.to_lowercase().as_str())
}
