//! Limits of numbers.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::finding::{Finding, Outcome, What};
use super::formats;
use crate::custom::schema::Schema;
use crate::golang::float;

/// Beyond this a float cannot tell neighbouring integers apart.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
/// How far above an integer a float may be, in relation to both, to be taken for it.
const TOLERANCE: f64 = 1e-9;

/// Whether upstream takes a float for an integer. What is a little too large it does, what is a little too small not.
pub fn is_whole(number: f64) -> bool {
    let whole = number.trunc();
    let near = number > 1.0 && (number - whole) / (number + whole) < TOLERANCE;
    number.is_finite() && number.abs() <= WHOLE_MAX && (number == whole || near)
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
    let limited = Limited { schema, number, float: number.as_f64().unwrap_or(f64::NAN), path };
    // Every integer is one, also where it is too large for a float to tell it from the first one that is not.
    let is_long = number.is_i64() && formats::effective(schema) != "int32";
    if !is_long && !limited.fits(limited.float) {
        out.add(limited.misfit("Checked"));
    }
    limited.multiple(&mut out);
    limited.minimum(&mut out);
    limited.maximum(&mut out);
    out.count();
    out
}

/// A number with the schema that limits it.
struct Limited<'a> {
    schema: &'a Schema,
    number: &'a Number,
    float: f64,
    path: &'a str,
}

impl Limited<'_> {
    /// Whether the type can hold a number.
    fn fits(&self, number: f64) -> bool {
        let whole = |low: f64, high: f64| number.fract() == 0.0 && (low..high).contains(&number);
        match (self.schema.types(), formats::effective(self.schema)) {
            (["integer"], "int32") => whole(-INT32_END, INT32_END),
            (["integer"], _) => whole(-INT64_END, INT64_END),
            (["number"], "float") => number.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    /// Upstream does not say in which field but in the text.
    fn misfit(&self, what: &str) -> Finding {
        let (type_, path) = (&self.schema.type_, self.path);
        let text = match formats::effective(self.schema) {
            "" => format!("{what} value must be of type {type_} (default format) in {path}"),
            format => format!("{what} value must be of type {type_} with format {format} in {path}"),
        };
        Finding::new("", What::Whole, text)
    }

    fn wrong(&self, value: impl Into<Value>, why: String) -> Finding {
        Finding::new(self.path, What::Other(value.into()), why)
    }

    fn multiple(&self, out: &mut Outcome) {
        let Some(factor) = self.schema.multiple_of else { return };
        let fits = self.fits(factor);
        if !fits {
            out.add(self.misfit("MultipleOf"));
        }
        let (path, number) = (self.path, || Value::Number(self.number.clone()));
        let not_positive =
            |shown: &str| format!("factor MultipleOf declared for {path} must be positive: {shown}");
        let not_multiple = |shown: &str| format!("{path} in body should be a multiple of {shown}");
        // Next to an integer a factor is an integer, even one that a fraction makes zero.
        match self.number.as_i64().filter(|_| fits).map(|number| (number, integer(factor))) {
            Some((_, factor)) if factor <= 0 => {
                out.add(self.wrong(factor, not_positive(&factor.to_string())))
            }
            Some((of, factor)) if of % factor != 0 => {
                out.add(self.wrong(number(), not_multiple(&factor.to_string())))
            }
            Some(_) => {}
            None if factor <= 0.0 => out.add(self.wrong(factor, not_positive(&float(factor)))),
            None => {
                let times = if factor < 1.0 { 1.0 / factor * self.float } else { self.float / factor };
                if !is_whole(times) {
                    out.add(self.wrong(number(), not_multiple(&float(factor))));
                }
            }
        }
    }

    fn minimum(&self, out: &mut Outcome) {
        let Some(limit) = self.schema.minimum else { return };
        let order = self.compare(limit, "Minimum boundary", out);
        match self.schema.exclusive_minimum {
            true if order.is_le() => out.add(self.beyond("greater than", limit)),
            false if order.is_lt() => out.add(self.beyond("greater than or equal to", limit)),
            _ => {}
        }
    }

    fn maximum(&self, out: &mut Outcome) {
        let Some(limit) = self.schema.maximum else { return };
        let order = self.compare(limit, "Maximum boundary", out);
        match self.schema.exclusive_maximum {
            true if order.is_ge() => out.add(self.beyond("less than", limit)),
            false if order.is_gt() => out.add(self.beyond("less than or equal to", limit)),
            _ => {}
        }
    }

    /// Where the number stands to a limit. A limit that its own type cannot hold is told, too.
    fn compare(&self, limit: f64, what: &str, out: &mut Outcome) -> Ordering {
        if !self.fits(limit) {
            out.add(self.misfit(what));
        }
        match self.as_integers(limit) {
            Some((number, limit)) => number.cmp(&limit),
            None => self.float.partial_cmp(&limit).unwrap_or(Ordering::Equal),
        }
    }

    /// A limit next to an integer is one, too.
    fn as_integers(&self, limit: f64) -> Option<(i64, i64)> {
        self.number.as_i64().filter(|_| self.fits(limit)).map(|number| (number, integer(limit)))
    }

    fn beyond(&self, words: &str, limit: f64) -> Finding {
        let shown = self.as_integers(limit).map_or_else(|| float(limit), |(_, limit)| limit.to_string());
        let why = format!("{} in body should be {words} {shown}", self.path);
        self.wrong(Value::Number(self.number.clone()), why)
    }
}

/// The first floats that integers cannot hold.
const INT32_END: f64 = 2_147_483_648.0;
const INT64_END: f64 = 9_223_372_036_854_775_808.0;

/// A float as an integer, as Go does it where upstream runs: without its fraction, and the smallest one if it is
/// beyond all of them.
fn integer(number: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "within what an integer holds")]
    if (-INT64_END..INT64_END).contains(&number) { number as i64 } else { i64::MIN }
}
