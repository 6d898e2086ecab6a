//! Limits of numbers.

use serde_json::{Number, Value};

use super::finding::{Finding, Outcome, What};
use super::formats;
use crate::custom::schema::Schema;
use crate::golang::float as go_float;

/// Beyond this a float cannot tell neighbouring integers apart.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

pub fn is_whole(number: f64) -> bool {
    number.is_finite() && number.fract() == 0.0 && number.abs() <= WHOLE_MAX
}

/// Whether two values are the same, numbers by what they say and not by how they are written.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

pub fn check(schema: &Schema, number: &Number, path: &str) -> Outcome {
    let mut out = Outcome::default();
    let float = number.as_f64().unwrap_or(f64::NAN);
    let value = || Value::Number(number.clone());
    if let Some(text) = out_of_range(schema, number, "Checked", path) {
        out.add(text);
    }
    if let Some(factor) = schema.multiple_of {
        let wrong = match (number.as_i64(), as_integer(factor)) {
            (Some(number), Some(factor)) => factor > 0 && number % factor != 0,
            _ => factor > 0.0 && !is_whole(if factor < 1.0 { 1.0 / factor * float } else { float / factor }),
        };
        if factor <= 0.0 {
            let why = format!("factor MultipleOf declared for {path} must be positive: {}", go_float(factor));
            out.add(Finding::new(path, What::Other(factor.into()), why));
        } else if wrong {
            let why = format!("{path} in body should be a multiple of {}", go_float(factor));
            out.add(Finding::new(path, What::Other(value()), why));
        }
    }
    if let Some(min) = schema.minimum {
        let (low, words) = match schema.exclusive_minimum {
            true => (float <= min, "greater than"),
            false => (float < min, "greater than or equal to"),
        };
        if low {
            let why = format!("{path} in body should be {words} {}", bound(number, min));
            out.add(Finding::new(path, What::Other(value()), why));
        }
    }
    if let Some(max) = schema.maximum {
        let (high, words) = match schema.exclusive_maximum {
            true => (float >= max, "less than"),
            false => (float > max, "less than or equal to"),
        };
        if high {
            let why = format!("{path} in body should be {words} {}", bound(number, max));
            out.add(Finding::new(path, What::Other(value()), why));
        }
    }
    out.count();
    out
}

/// A number that its type cannot hold. Upstream does not say in which field but in the text.
fn out_of_range(schema: &Schema, number: &Number, what: &str, path: &str) -> Option<Finding> {
    let format = formats::effective(schema);
    let fits = match (schema.types(), format) {
        (["integer"], "int32") => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        (["integer"], _) => number.is_i64() || number.as_f64().is_some_and(is_whole),
        (["number"], "float") => number.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX)),
        _ => true,
    };
    if fits {
        return None;
    }
    let type_ = &schema.type_;
    let text = match format {
        "" => format!("{what} value must be of type {type_} (default format) in {path}"),
        format => format!("{what} value must be of type {type_} with format {format} in {path}"),
    };
    Some(Finding::new("", What::Whole, text))
}

/// A limit next to an integer is shown as an integer.
fn bound(number: &Number, limit: f64) -> String {
    match (number.is_i64(), as_integer(limit.trunc())) {
        (true, Some(limit)) => limit.to_string(),
        _ => go_float(limit),
    }
}

fn as_integer(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and within what a float holds exactly")]
    is_whole(number).then_some(number as i64)
}
