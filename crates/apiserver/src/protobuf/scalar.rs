//! Values with an encoding of their own: numbers, times, quantities, raw JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Result;
use super::wire::{Raw, Reader, Writer, wrong};
use crate::schema::Shape;

/// `type` of an `IntOrString` that holds a string.
const IS_STRING: u64 = 1;

pub fn decode(shape: &Shape, raw: Raw<'_>) -> Result<Value> {
    Ok(match shape {
        Shape::String => raw.text()?.into(),
        Shape::Bool => (varint(raw)? != 0).into(),
        // The upper half of a sign-extended number is not part of it.
        Shape::Int32 => (varint(raw)? as u32).cast_signed().into(),
        Shape::Int64 => varint(raw)?.cast_signed().into(),
        Shape::Float64 => match raw {
            Raw::Fixed64(bits) => f64::from_bits(bits).into(),
            Raw::Varint(_) | Raw::Bytes(_) | Raw::Fixed32(_) => return Err(wrong("not a double")),
        },
        Shape::Bytes => STANDARD.encode(raw.bytes()?).into(),
        Shape::Quantity => text_in(raw, 1)?.into(),
        Shape::IntOrString => int_or_string(raw)?,
        Shape::Time => time(raw, 0)?,
        Shape::MicroTime => time(raw, 6)?,
        Shape::Duration => go_duration(number_in(raw, 1)?.cast_signed()).into(),
        Shape::FieldsV1 | Shape::RawExtension => raw_json(raw)?,
        Shape::Message(_) | Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_) => {
            return Err(wrong("not a single value"));
        }
    })
}

/// An absent value in a map entry arrives as no bytes.
fn varint(raw: Raw<'_>) -> Result<u64> {
    if raw == Raw::Bytes(&[]) { Ok(0) } else { raw.varint() }
}

fn text_in(raw: Raw<'_>, number: u32) -> Result<String> {
    let mut text = String::new();
    for entry in Reader::new(raw.bytes()?) {
        let (found, raw) = entry?;
        if found == number {
            text = raw.text()?;
        }
    }
    Ok(text)
}

fn number_in(raw: Raw<'_>, number: u32) -> Result<u64> {
    let mut value = 0;
    for entry in Reader::new(raw.bytes()?) {
        let (found, raw) = entry?;
        if found == number {
            value = raw.varint()?;
        }
    }
    Ok(value)
}

fn int_or_string(raw: Raw<'_>) -> Result<Value> {
    if number_in(raw, 1)? == IS_STRING {
        return Ok(text_in(raw, 3)?.into());
    }
    Ok((number_in(raw, 2)? as u32).cast_signed().into())
}

/// A zero time is no time.
fn time(raw: Raw<'_>, digits: u8) -> Result<Value> {
    let (seconds, nanos) = (number_in(raw, 1)?.cast_signed(), number_in(raw, 2)?);
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| wrong("time out of range"))?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| wrong("time out of range"))?;
    Ok(format!("{time:.*}", usize::from(digits)).into())
}

fn raw_json(raw: Raw<'_>) -> Result<Value> {
    let mut bytes = &[][..];
    for entry in Reader::new(raw.bytes()?) {
        if let (1, raw) = entry? {
            bytes = raw.bytes()?;
        }
    }
    match bytes {
        [] => Ok(Value::Null),
        bytes => serde_json::from_slice(bytes).map_err(|_| wrong("not JSON")),
    }
}

/// Values that do not fit their shape are left out: typed kinds were checked before they were stored.
pub fn encode(out: &mut Writer, number: u32, shape: &Shape, value: &Value) {
    match (shape, value) {
        (Shape::String, Value::String(text)) => out.text(number, text),
        (Shape::Bool, Value::Bool(flag)) => out.varint(number, (*flag).into()),
        (Shape::Int32 | Shape::Int64, Value::Number(n)) => {
            out.varint(number, n.as_i64().unwrap_or_default().cast_unsigned());
        }
        (Shape::Float64, Value::Number(n)) => {
            out.fixed64(number, n.as_f64().unwrap_or_default().to_bits());
        }
        (Shape::Bytes, Value::String(text)) => {
            if let Ok(bytes) = STANDARD.decode(text) {
                out.bytes(number, &bytes);
            }
        }
        (Shape::Quantity, Value::String(text)) => nested(out, number, |inner| inner.text(1, text)),
        (Shape::Quantity, Value::Number(n)) => nested(out, number, |inner| inner.text(1, &n.to_string())),
        (Shape::IntOrString, value) => nested(out, number, |inner| match value {
            Value::String(text) => {
                inner.varint(1, IS_STRING);
                inner.varint(2, 0);
                inner.text(3, text);
            }
            other => {
                inner.varint(1, 0);
                inner.varint(2, other.as_i64().unwrap_or_default().cast_unsigned());
                inner.text(3, "");
            }
        }),
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                nested(out, number, |inner| {
                    inner.varint(1, time.as_second().cast_unsigned());
                    inner.varint(2, i64::from(time.subsec_nanosecond()).cast_unsigned());
                });
            }
        }
        (Shape::Duration, Value::String(text)) => {
            if let Some(nanos) = parse_go_duration(text) {
                nested(out, number, |inner| inner.varint(1, nanos.cast_unsigned()));
            }
        }
        (Shape::FieldsV1 | Shape::RawExtension, value) => {
            nested(out, number, |inner| inner.bytes(1, value.to_string().as_bytes()));
        }
        _ => {}
    }
}

fn nested(out: &mut Writer, number: u32, fill: impl FnOnce(&mut Writer)) {
    let mut inner = Writer::default();
    fill(&mut inner);
    out.bytes(number, &inner.finish());
}

/// `1h0m0.5s`, as Go prints a duration.
fn go_duration(nanos: i64) -> String {
    let duration = SignedDuration::from_nanos(nanos);
    let sign = if nanos < 0 { "-" } else { "" };
    let total = duration.as_secs().unsigned_abs();
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    let fraction = match duration.subsec_nanos().unsigned_abs() {
        0 => String::new(),
        nanos => format!(".{}", format!("{nanos:09}").trim_end_matches('0')),
    };
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}{fraction}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}{fraction}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

fn parse_go_duration(text: &str) -> Option<i64> {
    let duration: SignedDuration = text.parse().ok()?;
    i64::try_from(duration.as_nanos()).ok()
}
