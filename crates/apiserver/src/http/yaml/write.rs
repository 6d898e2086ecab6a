//! From JSON to YAML, in the style of upstream's library: keys sorted, two spaces, lists as deep as their key.

use serde_json::Value;

use super::scalar;

pub fn write(value: &Value) -> String {
    let mut out = String::new();
    node(value, 0, &mut out);
    out
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => true,
    }
}

/// Writes a value whose first line is indented already.
fn node(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                node(item, indent + 2, out);
            }
        }
        Value::Object(object) if !object.is_empty() => {
            for (position, (key, value)) in object.iter().enumerate() {
                if position > 0 {
                    pad(indent, out);
                }
                out.push_str(&text(key));
                out.push(':');
                member(value, indent, out);
            }
        }
        scalar => {
            leaf(scalar, indent, out);
            out.push('\n');
        }
    }
}

/// Writes what stands behind a key.
fn member(value: &Value, indent: usize, out: &mut String) {
    if is_plain(value) {
        out.push(' ');
        leaf(value, indent + 2, out);
        out.push('\n');
        return;
    }
    // A list stands right under its key.
    let inner = if value.is_array() { indent } else { indent + 2 };
    out.push('\n');
    pad(inner, out);
    node(value, inner, out);
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn leaf(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        Value::String(lines) if is_block(lines) => block(lines, indent.max(2), out),
        Value::String(line) => out.push_str(&text(line)),
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Lines that can stand as they are.
fn is_block(text: &str) -> bool {
    let fits = |line: &str| !line.ends_with(' ') && line.chars().all(|c| c == '\t' || is_printable(c));
    let starts = text.chars().next().is_some_and(|first| !first.is_whitespace());
    starts && text.contains('\n') && text.split('\n').all(fits)
}

fn block(text: &str, indent: usize, out: &mut String) {
    // How many line breaks the end keeps.
    out.push_str(match text {
        text if text.ends_with("\n\n") => "|+",
        text if text.ends_with('\n') => "|",
        _ => "|-",
    });
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
}

/// A text on one line, with quotes where it would be read as something else.
fn text(text: &str) -> String {
    let is_text = scalar::plain(text).is_string() && scalar::is_unbounded(text).is_none();
    if !is_text || text == "<<" || text == "=" || is_time(text) {
        return double(text);
    }
    if is_bare(text) {
        text.to_owned()
    } else if text.chars().all(is_printable) {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        double(text)
    }
}

fn is_printable(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Dates and sexagesimal numbers, which older readers see as such.
fn is_time(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let date = text.get(..4).is_some_and(digits) && text.as_bytes().get(4) == Some(&b'-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    date || unsigned.contains(':') && unsigned.split(':').all(digits)
}

fn is_bare(text: &str) -> bool {
    const FIRST: &str = ",[]{}#&*!|>'\"%@`";
    let mut characters = text.chars();
    let (first, second) = (characters.next(), characters.next());
    let indicator = match first {
        Some('-' | '?' | ':') => second.is_none_or(|second| second == ' '),
        Some(first) => FIRST.contains(first),
        None => true,
    };
    let marker = text.starts_with("---") || text.starts_with("...");
    let spaced = text.starts_with(' ') || text.ends_with(' ');
    let inside = text.contains(": ") || text.contains(" #") || text.ends_with(':');
    !(indicator || marker || spaced || inside) && text.chars().all(is_printable)
}

fn double(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            hidden if !is_printable(hidden) => out.push_str(&format!("\\u{:04x}", u32::from(hidden))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
