//! How Go prints values, because upstream's messages carry them.

use std::num::{IntErrorKind, ParseIntError};

use serde_json::{Number, Value};

/// Text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
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

/// A float as `%v` and `%g` have it: as few digits as say the same, with an exponent outside of -4 to 5.
pub fn float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        // Neither of these is a number to JSON; they come from arithmetic.
        return match number {
            number if number.is_nan() => "NaN".into(),
            number if number > 0.0 => "+Inf".into(),
            _ => "-Inf".into(),
        };
    };
    if exponent.parse().is_ok_and(|exponent| (-4..6).contains(&exponent)) {
        return number.to_string();
    }
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// A number of a decoded object as `%v` has it: what is no `int64` is a float.
pub fn number(number: &Number) -> String {
    match number.as_f64().filter(|_| !number.is_i64()) {
        Some(value) => float(value),
        None => number.to_string(),
    }
}

/// A value as `%v` has it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value),
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
        Value::Number(value) => number(value),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Seen with Go's fmt package.
    #[test]
    fn texts() {
        assert_eq!(quoted("a\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1}\"\\é"), r#""a\a\b\t\n\v\f\r\x01\"\\é""#);
    }

    /// Seen with Go's fmt package.
    #[test]
    fn floats() {
        let table = [
            (0.0, "0"),
            (0.5, "0.5"),
            (3.0, "3"),
            (100_000.5, "100000.5"),
            (123_456.0, "123456"),
            (1_000_000.0, "1e+06"),
            (-1_000_000.5, "-1.0000005e+06"),
            (123_456_789.125, "1.23456789125e+08"),
            (1e20, "1e+20"),
            (1e300, "1e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (number, want) in table {
            assert_eq!(float(number), want);
        }
        assert_eq!(
            plain(&json!([5.0, 2_000_000, 2e6, u64::MAX])),
            "[5 2000000 2e+06 1.8446744073709552e+19]"
        );
        assert_eq!(literal(&json!([2e6])), "[]interface {}{2e+06}");
    }
}
