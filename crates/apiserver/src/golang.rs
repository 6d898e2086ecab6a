//! How Go prints values, because upstream's messages carry them.

use std::num::{IntErrorKind, ParseIntError};

use serde_json::Value;

/// Text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(control))),
            control if control.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Go's spellings of the formats of times.
pub const TIME: &str = "2006-01-02T15:04:05Z07:00";
pub const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time in a format that Go spells like this. The error is Go's.
pub fn time(text: &str, format: &str) -> Result<jiff::Timestamp, String> {
    let refused = |_| format!("parsing time {text:?} as {format:?}: cannot parse {text:?} as \"2006\"");
    text.parse().map_err(refused)
}

/// What Go says of a text that is no number, or none that fits.
pub fn parse_fault(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// A value as `%v` has it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(object) => {
            let members: Vec<String> =
                object.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as it would stand in a program, `%#v`.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let members: Vec<String> =
                object.iter().map(|(name, value)| format!("{}:{}", quoted(name), literal(value))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// The type of a value that was read without a schema, `%T`.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What Go's decoder calls a JSON value.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
