//! Counts that may be numbers or percentages.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::same;
use crate::field::Invalid;

const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// As it was written.
pub fn shown(count: &IntOrString) -> String {
    match count {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

/// The number before the percent sign.
pub fn percentage(count: &IntOrString) -> Option<i64> {
    let IntOrString::String(text) = count else { return None };
    let digits =
        text.strip_suffix('%').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    digits.parse().ok()
}

/// The number, of percent or of things; other text is none.
pub fn number(count: &IntOrString) -> i64 {
    match count {
        IntOrString::Int(number) => (*number).into(),
        IntOrString::String(text) => percentage(count).or_else(|| text.parse().ok()).unwrap_or(0),
    }
}

pub fn positive(field: &str, count: &IntOrString) -> Option<Invalid> {
    match count {
        IntOrString::Int(number) => super::non_negative(field, (*number).into()),
        IntOrString::String(_) if percentage(count).is_some() => None,
        IntOrString::String(text) => Some(Invalid::invalid(field, text.as_str(), NO_PERCENT)),
    }
}

pub fn at_most_all(field: &str, count: &IntOrString) -> Option<Invalid> {
    let over = percentage(count).is_some_and(|percent| percent > 100);
    over.then(|| Invalid::invalid(field, same::json(count), "must not be greater than 100%"))
}
