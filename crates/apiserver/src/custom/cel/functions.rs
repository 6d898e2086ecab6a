//! Functions and operators by name.

use bowline_api::quantity;

use super::eval::{Evaluator, Fail};
use super::value::Val;
use super::{lists, members, numbers, text, times};
use crate::golang::float;

type Outcome<'a> = Result<Val<'a>, Fail>;

/// The first value is what a method is called on.
pub fn call<'a>(evaluator: &mut Evaluator<'a, '_>, name: &str, values: &[Val<'a>]) -> Outcome<'a> {
    match (name, values) {
        ("_==_", [one, other]) => equal(evaluator, one, other).map(Val::Bool),
        ("_!=_", [one, other]) => equal(evaluator, one, other).map(|same| Val::Bool(!same)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => {
            let order = numbers::compare(one, other).ok_or_else(Fail::overload)?;
            Ok(Val::Bool(match name {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        ("!_", [Val::Bool(flag)]) => Ok(Val::Bool(!flag)),
        ("-_", [of]) => numbers::negated(of),
        ("@in", [one, Val::List(list)]) => lists::contains(evaluator, list, one).map(Val::Bool),
        ("@in", [one, Val::Map(table)]) => {
            let mut spent = 0;
            let found = table.get(one, &mut spent).is_some();
            evaluator.spend(spent)?;
            Ok(Val::Bool(found))
        }
        ("_+_", [Val::Text(one), Val::Text(other)]) => Ok(Val::text(format!("{}{}", &**one, &**other))),
        ("_+_", [Val::Bytes(one), Val::Bytes(other)]) => Ok(Val::Bytes([&**one, &**other].concat().into())),
        ("_+_", [Val::List(one), Val::List(other)]) => members::joined(evaluator, one, other),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [one, other]) => {
            let operator = name.chars().nth(1).unwrap_or('+');
            numbers::arithmetic(operator, one, other)
        }
        ("type", [of]) => Ok(Val::Type(of.type_name())),
        ("dyn", [of]) => Ok(of.clone()),
        ("size", [of]) => size(of),
        ("int" | "uint" | "double" | "string" | "bytes" | "bool" | "timestamp" | "duration", [of]) => {
            converted(name, of)
        }
        ("quantity", [Val::Text(text)]) => {
            quantity::nanos(text).map(Val::Quantity).map_err(|why| Fail::new(why.to_string()))
        }
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(quantity::nanos(text).is_ok())),
        (_, [Val::Quantity(of), rest @ ..]) => amount(name, *of, rest),
        (_, [Val::Optional(of), rest @ ..]) => optional(name, of.as_deref(), rest),
        (_, [Val::Time(at)]) => times::part_of_time(name, *at).ok_or_else(Fail::overload),
        (_, [Val::Span(span)]) => times::part_of_span(name, *span).ok_or_else(Fail::overload),
        (_, [Val::Text(of), rest @ ..]) => text::call(evaluator, name, of, rest),
        (_, [Val::List(of), rest @ ..]) => lists::call(evaluator, name, of, rest),
        _ => Err(Fail::overload()),
    }
}

/// `sets.contains`, `optional.of` and the like.
pub fn prefixed<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    prefix: &str,
    name: &str,
    values: &[Val<'a>],
) -> Outcome<'a> {
    match (prefix, name, values) {
        ("optional", "of", [of]) => Ok(Val::Optional(Some(of.clone().into()))),
        ("optional", "none", []) => Ok(Val::Optional(None)),
        ("optional", "ofNonZeroValue", [of]) => {
            Ok(Val::Optional(if of.is_zero() { None } else { Some(of.clone().into()) }))
        }
        ("lists", "range", [Val::Int(end)]) => {
            evaluator.spend(u64::try_from(*end).unwrap_or(0))?;
            Ok(Val::list((0..*end).map(Val::Int).collect()))
        }
        ("strings", "quote", [Val::Text(of)]) => Ok(Val::text(text::quoted(of))),
        ("sets", name, [Val::List(one), Val::List(other)]) => {
            lists::sets(evaluator, name, one, other).map(Val::Bool)
        }
        _ => Err(Fail::overload()),
    }
}

fn equal<'a>(evaluator: &mut Evaluator<'a, '_>, one: &Val<'a>, other: &Val<'a>) -> Result<bool, Fail> {
    let mut spent = 0;
    let same = one.equals(other, &mut spent);
    evaluator.spend(spent)?;
    Ok(same)
}

fn size<'a>(of: &Val<'a>) -> Outcome<'a> {
    let size = match of {
        Val::Text(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::List(list) => list.len(),
        Val::Map(table) => table.len(),
        _ => return Err(Fail::overload()),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "ranges are checked, and a double is asked for"
)]
fn converted<'a>(to: &str, of: &Val<'a>) -> Outcome<'a> {
    let bad = || Fail::new(format!("type conversion error from '{}' to '{to}'", of.type_name()));
    let range = || Fail::new("integer overflow");
    Ok(match (to, of) {
        ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("bool", Val::Bool(_))
        | ("timestamp", Val::Time(_))
        | ("duration", Val::Span(_)) => of.clone(),
        ("int", Val::Uint(n)) => Val::Int(i64::try_from(*n).map_err(|_| range())?),
        ("int", Val::Double(n)) if n.abs() < 9.2e18 => Val::Int(*n as i64),
        ("int", Val::Double(_)) => return Err(range()),
        ("int", Val::Text(text)) => Val::Int(text.parse().map_err(|_| bad())?),
        ("int", Val::Time(at)) => Val::Int(at.as_second()),
        ("uint", Val::Int(n)) => Val::Uint(u64::try_from(*n).map_err(|_| range())?),
        ("uint", Val::Double(n)) if (0.0..1.8e19).contains(n) => Val::Uint(*n as u64),
        ("uint", Val::Double(_)) => return Err(range()),
        ("uint", Val::Text(text)) => Val::Uint(text.parse().map_err(|_| bad())?),
        ("double", Val::Int(n)) => Val::Double(*n as f64),
        ("double", Val::Uint(n)) => Val::Double(*n as f64),
        ("double", Val::Text(text)) => Val::Double(text.parse().map_err(|_| bad())?),
        ("string", Val::Bytes(bytes)) => Val::text(std::str::from_utf8(bytes).map_err(|_| bad())?),
        (
            "string",
            Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Time(_) | Val::Span(_),
        ) => Val::text(shown(of)),
        ("bytes", Val::Text(text)) => Val::Bytes(text.as_bytes().into()),
        ("bool", Val::Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Val::Bool(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Val::Bool(false),
            _ => return Err(bad()),
        },
        ("timestamp", Val::Text(text)) => Val::Time(numbers::timestamp(text).map_err(Fail::Error)?),
        ("timestamp", Val::Int(n)) => Val::Time(jiff::Timestamp::from_second(*n).map_err(|_| bad())?),
        ("duration", Val::Text(text)) => Val::Span(numbers::duration(text).map_err(Fail::Error)?),
        _ => return Err(Fail::overload()),
    })
}

/// A value in a message.
pub fn shown(value: &Val<'_>) -> String {
    match value {
        Val::Bool(flag) => flag.to_string(),
        Val::Int(n) => n.to_string(),
        Val::Uint(n) => n.to_string(),
        Val::Double(n) => float(*n),
        Val::Text(text) => text.to_string(),
        Val::Time(at) => at.to_string(),
        Val::Span(span) => times::shown(*span),
        other => other.type_name().to_owned(),
    }
}

fn optional<'a>(name: &str, of: Option<&Val<'a>>, rest: &[Val<'a>]) -> Outcome<'a> {
    match (name, of, rest) {
        ("hasValue", of, []) => Ok(Val::Bool(of.is_some())),
        ("value", Some(of), []) => Ok(of.clone()),
        ("value", None, []) => Err(Fail::new("optional.none() dereference")),
        ("orValue", of, [other]) => Ok(of.unwrap_or(other).clone()),
        ("or", Some(of), [_]) => Ok(Val::Optional(Some(of.clone().into()))),
        ("or", None, [other]) => Ok(other.clone()),
        _ => Err(Fail::overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an approximate float is asked for")]
fn amount<'a>(name: &str, of: i128, rest: &[Val<'a>]) -> Outcome<'a> {
    let nanos = |other: &Val<'a>| match other {
        Val::Quantity(other) => Ok(*other),
        Val::Int(other) => Ok(i128::from(*other) * quantity::NANO),
        _ => Err(Fail::overload()),
    };
    let overflow = || Fail::new("quantity overflow");
    let whole = of % quantity::NANO == 0;
    Ok(match (name, rest) {
        ("sign", []) => Val::Int(of.signum() as i64),
        ("isInteger", []) => Val::Bool(whole && i64::try_from(of / quantity::NANO).is_ok()),
        ("asInteger", []) if whole => Val::Int(i64::try_from(of / quantity::NANO).map_err(|_| overflow())?),
        ("asInteger", []) => return Err(Fail::new("cannot convert value to integer")),
        ("asApproximateFloat", []) => Val::Double(of as f64 / quantity::NANO as f64),
        ("isGreaterThan", [Val::Quantity(other)]) => Val::Bool(of > *other),
        ("isLessThan", [Val::Quantity(other)]) => Val::Bool(of < *other),
        ("compareTo", [Val::Quantity(other)]) => Val::Int(of.cmp(other) as i64),
        ("add", [other]) => Val::Quantity(of.checked_add(nanos(other)?).ok_or_else(overflow)?),
        ("sub", [other]) => Val::Quantity(of.checked_sub(nanos(other)?).ok_or_else(overflow)?),
        _ => return Err(Fail::overload()),
    })
}
