//! Rules that several kinds share. Each takes the path of the field and answers with what is wrong there.

pub mod access_modes;
pub mod addresses;
pub mod conditions;
pub mod go;
pub mod names;
pub mod parameters;
pub mod paths;
pub mod percent;
pub mod quantities;
pub mod same;
pub mod selectors;

use serde_json::Value;

use crate::field::{Invalid, Reason};

/// Longer than `max` bytes. The value is not repeated.
pub fn too_long(field: impl Into<String>, max: usize) -> Invalid {
    let detail = format!("may not be more than {max} bytes");
    Invalid { reason: Reason::TooLong, field: field.into(), value: None, detail }
}

/// More than `most` items. How many there are is the value.
pub fn too_many(field: impl Into<String>, count: usize, most: usize) -> Option<Invalid> {
    let detail = format!("must have at most {most} items");
    let value = Some(count.into());
    (count > most).then(|| Invalid { reason: Reason::TooMany, field: field.into(), value, detail })
}

/// Refers to something that is not there.
pub fn not_found(field: impl Into<String>, value: &str) -> Invalid {
    let value = Some(Value::from(value));
    Invalid { reason: Reason::NotFound, field: field.into(), value, detail: String::new() }
}

/// Not among the supported values, which are listed in the order given.
pub fn one_of(field: &str, value: &str, supported: &[&str]) -> Option<Invalid> {
    (!supported.contains(&value)).then(|| not_one_of(field, value, supported))
}

/// A value that is refused, whatever the list of supported ones says.
pub fn not_one_of(field: &str, value: &str, supported: &[&str]) -> Invalid {
    let listed: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    let detail = format!("supported values: {}", listed.join(", "));
    let value = Some(Value::from(value));
    Invalid { reason: Reason::NotSupported, field: field.into(), value, detail }
}

/// Like [`one_of`], for a field that defaults fill: empty is a missing value.
pub fn required_one_of(field: &str, value: Option<&str>, supported: &[&str]) -> Option<Invalid> {
    match value.unwrap_or_default() {
        "" => Some(Invalid::required(field, "")),
        value => one_of(field, value, supported),
    }
}

/// Missing or empty text.
pub fn required(field: &str, value: Option<&str>) -> Option<Invalid> {
    value.unwrap_or_default().is_empty().then(|| Invalid::required(field, ""))
}

/// Below zero.
pub fn non_negative(field: &str, value: i64) -> Option<Invalid> {
    (value < 0).then(|| Invalid::invalid(field, value, "must be greater than or equal to 0"))
}

/// Zero or below.
pub fn positive(field: &str, value: i64) -> Option<Invalid> {
    (value <= 0).then(|| Invalid::invalid(field, value, "must be greater than zero"))
}

/// How long a token of a service account may last.
pub fn token_lifetime(field: &str, seconds: i64) -> Option<Invalid> {
    let text = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return None,
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Some(Invalid::invalid(field, seconds, text))
}

/// Wording of a number outside a range.
pub fn range_text(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}
