//! Arithmetic and order.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::eval::Fail;
use super::value::Val;

const OVERFLOW: &str = "integer overflow";

/// Which of two is larger, if they can be compared at all.
pub fn compare(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    Some(match (one, other) {
        (Val::Bool(one), Val::Bool(other)) => one.cmp(other),
        (Val::Text(one), Val::Text(other)) => (**one).cmp(&**other),
        (Val::Bytes(one), Val::Bytes(other)) => one.cmp(other),
        (Val::Time(one), Val::Time(other)) => one.cmp(other),
        (Val::Span(one), Val::Span(other)) => one.cmp(other),
        (Val::Quantity(one), Val::Quantity(other)) => one.cmp(other),
        (Val::Int(one), Val::Int(other)) => one.cmp(other),
        (Val::Uint(one), Val::Uint(other)) => one.cmp(other),
        (Val::Int(one), Val::Uint(other)) => i128::from(*one).cmp(&i128::from(*other)),
        (Val::Uint(one), Val::Int(other)) => i128::from(*one).cmp(&i128::from(*other)),
        (one, other) => return float(one)?.partial_cmp(&float(other)?),
    })
}

#[expect(clippy::cast_precision_loss, reason = "comparing with a float is comparing as floats")]
fn float(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Int(n) => Some(*n as f64),
        Val::Uint(n) => Some(*n as f64),
        Val::Double(n) => Some(*n),
        _ => None,
    }
}

/// `operator` is the sign between the underscores.
pub fn arithmetic<'a>(operator: char, one: &Val<'a>, other: &Val<'a>) -> Result<Val<'a>, Fail> {
    let overflow = || Fail::new(OVERFLOW);
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => {
            let zero = *other == 0;
            let result = match operator {
                '+' => one.checked_add(*other),
                '-' => one.checked_sub(*other),
                '*' => one.checked_mul(*other),
                '/' if zero => return Err(Fail::new("division by zero")),
                '/' => one.checked_div(*other),
                _ if zero => return Err(Fail::new("modulus by zero")),
                _ => one.checked_rem(*other),
            };
            result.map(Val::Int).ok_or_else(overflow)
        }
        (Val::Uint(one), Val::Uint(other)) => {
            let zero = *other == 0;
            let result = match operator {
                '+' => one.checked_add(*other),
                '-' => one.checked_sub(*other),
                '*' => one.checked_mul(*other),
                '/' if zero => return Err(Fail::new("division by zero")),
                '/' => one.checked_div(*other),
                _ if zero => return Err(Fail::new("modulus by zero")),
                _ => one.checked_rem(*other),
            };
            result.map(Val::Uint).ok_or_else(|| Fail::new("unsigned integer overflow"))
        }
        (Val::Double(one), Val::Double(other)) => Ok(Val::Double(match operator {
            '+' => one + other,
            '-' => one - other,
            '*' => one * other,
            '/' => one / other,
            _ => return Err(Fail::overload()),
        })),
        (one, other) => times(operator, one, other),
    }
}

fn times<'a>(operator: char, one: &Val<'a>, other: &Val<'a>) -> Result<Val<'a>, Fail> {
    let overflow = || Fail::new("timestamp overflow");
    match (operator, one, other) {
        ('+', Val::Time(at), Val::Span(by)) | ('+', Val::Span(by), Val::Time(at)) => {
            at.checked_add(*by).map(Val::Time).map_err(|_| overflow())
        }
        ('-', Val::Time(at), Val::Span(by)) => at.checked_sub(*by).map(Val::Time).map_err(|_| overflow()),
        ('-', Val::Time(one), Val::Time(other)) => Ok(Val::Span(one.duration_since(*other))),
        ('+', Val::Span(one), Val::Span(other)) => {
            one.checked_add(*other).map(Val::Span).ok_or_else(overflow)
        }
        ('-', Val::Span(one), Val::Span(other)) => {
            one.checked_sub(*other).map(Val::Span).ok_or_else(overflow)
        }
        _ => Err(Fail::overload()),
    }
}

pub fn negated<'a>(of: &Val<'a>) -> Result<Val<'a>, Fail> {
    match of {
        Val::Int(n) => n.checked_neg().map(Val::Int).ok_or_else(|| Fail::new(OVERFLOW)),
        Val::Double(n) => Ok(Val::Double(-n)),
        Val::Span(span) => span.checked_neg().map(Val::Span).ok_or_else(|| Fail::new("duration overflow")),
        _ => Err(Fail::overload()),
    }
}

pub fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("invalid timestamp string {text:?}"))
}

/// Go's notation: `1h30m`, `-1.5s`.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    let bad = || format!("invalid duration string {text:?}");
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(bad()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits =
            |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i64>().ok().map(i128::from) };
        if number == "." || number.is_empty() || fraction.len() > 15 {
            return Err(bad());
        }
        let whole = digits(whole).ok_or_else(bad)?;
        let part = digits(fraction).ok_or_else(bad)? * nanos / 10i128.pow(fraction.len() as u32);
        total = total.saturating_add(whole * nanos + part);
        rest = after;
    }
    let total = i64::try_from(if negative { -total } else { total }).map_err(|_| bad())?;
    Ok(SignedDuration::from_nanos(total))
}
