//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;

use super::finding::{Finding, Outcome, What};
use crate::custom::correlate::Correlated;
use crate::custom::schema::Schema;

pub fn check(schema: &Schema, value: &Value, path: &str, replaces: Option<Correlated<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let whole = |text: String| Finding::new("", What::Whole, text);
    // The parts speak of the same value, so they are excused together with it and not one by one.
    let part = |schema: &Schema| super::check(schema, value, path, replaces);
    if !schema.any_of.is_empty() {
        let tried = closest(schema.any_of.iter().map(part), true);
        if tried.valid == 0 {
            out.add(whole(format!("{path:?} must validate at least one schema (anyOf)")));
        }
        out.merge(tried.outcome);
    }
    if !schema.one_of.is_empty() {
        let tried = closest(schema.one_of.iter().map(part), false);
        match tried.valid {
            1 => out.merge(tried.outcome),
            0 => {
                out.add(whole(format!(
                    "{path:?} must validate one and only one schema (oneOf). Found none valid"
                )));
                out.merge(tried.outcome);
            }
            many => out.add(whole(format!(
                "{path:?} must validate one and only one schema (oneOf). Found {many} valid alternatives"
            ))),
        }
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for part in schema.all_of.iter().map(part) {
            valid += usize::from(part.is_valid());
            out.merge(part);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.add(whole(format!("{path:?} must validate all the schemas (allOf){none}")));
        }
    }
    if schema.not.as_deref().map(part).is_some_and(|part| part.is_valid()) {
        out.add(whole(format!("{path:?} must not validate the schema (not)")));
    }
    out.count();
    out
}

struct Tried {
    valid: usize,
    /// Of the first alternative that fits, else of the one that fits best.
    outcome: Outcome,
}

fn closest(parts: impl Iterator<Item = Outcome>, first_is_enough: bool) -> Tried {
    let mut tried = Tried { valid: 0, outcome: Outcome::default() };
    let mut best: Option<Outcome> = None;
    for part in parts {
        if part.is_valid() {
            tried.valid += 1;
            if tried.valid == 1 {
                tried.outcome = part;
            }
            if first_is_enough {
                return tried;
            }
        } else if best.as_ref().is_none_or(|best| part.matches > best.matches) {
            best = Some(part);
        }
    }
    if tried.valid == 0 {
        tried.outcome = best.unwrap_or_default();
    }
    tried
}
