//! What a scalar means. The rules are those of YAML 1.1 as the Go library has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

/// The meaning of a scalar that has no quotes and no tag.
pub fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    number(text).map_or_else(|| text.into(), Value::Number)
}

/// The meaning of a scalar with one of YAML's own tags. The error says what it is instead.
pub fn tagged(tag: &str, text: &str) -> Result<Value, String> {
    let value = match tag {
        "str" | "timestamp" => return Ok(text.into()),
        "binary" => {
            let packed: String = text.split_whitespace().collect();
            let decoded = STANDARD.decode(packed);
            let decoded = decoded.map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            return Ok(String::from_utf8_lossy(&decoded).into());
        }
        _ => plain(text),
    };
    let found = match &value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    };
    match (tag, found) {
        // A whole number is as good as one with a fraction.
        ("float", "int") => Ok(value),
        ("int" | "float" | "bool" | "null", _) if tag != found => {
            Err(format!("cannot decode !!{found} `{text}` as a !!{tag}"))
        }
        ("int" | "float" | "bool" | "null", _) => Ok(value),
        // Tags of sets and the like say nothing about scalars.
        _ => Ok(text.into()),
    }
}

/// What does not fit JSON, such as infinity, is `None` here and refused by [`is_unbounded`].
fn number(text: &str) -> Option<Number> {
    match text.bytes().next()? {
        b'+' | b'-' | b'0'..=b'9' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))
        }
        b'.' => float(text),
        _ => None,
    }
}

/// With the prefixes of Go: `0x`, `0o`, `0b`, and a bare zero for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match negative {
        false => Some(magnitude.into()),
        true => 0_i64.checked_sub_unsigned(magnitude).map(Number::from),
    }
}

fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    let signed = |text: &str| digits(text.strip_prefix(['+', '-']).unwrap_or(text));
    if !whole || !exponent.is_none_or(signed) {
        return None;
    }
    from_f64(text.parse().ok()?)
}

/// Go writes a whole number without a fraction, so that it comes back as an integer.
fn from_f64(value: f64) -> Option<Number> {
    /// From here on Go uses exponents.
    const EXPONENT_FROM: f64 = 1e21;
    if value.is_finite() && value.fract() == 0.0 && value.abs() < EXPONENT_FROM {
        let text = format!("{value:.0}");
        let signed = text.parse::<i64>().map(Number::from);
        let unsigned = || text.parse::<u64>().map(Number::from);
        if let Ok(number) = signed.or_else(|_| unsigned()) {
            return Some(number);
        }
    }
    Number::from_f64(value)
}

/// Numbers that YAML has and JSON has not, in the words of Go's encoder.
pub fn is_unbounded(text: &str) -> Option<&'static str> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => Some("-Inf"),
        _ => None,
    }
}
