//! Amounts, and the one notation in which they are kept.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use bowline_api::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use crate::field::Invalid;

pub type Resources = BTreeMap<String, Quantity>;

/// Quotes bare numbers (`cpu: 1`) at the given paths, because our types take text only. Copies nothing if there are none.
pub fn accept_numbers<'a>(input: &'a Value, paths: &[&str]) -> Cow<'a, Value> {
    let bare = |path: &&&str| any_number(input, &path.split('.').collect::<Vec<_>>());
    let mut output = Cow::Borrowed(input);
    for path in paths.iter().filter(bare) {
        quote(output.to_mut(), &path.split('.').collect::<Vec<_>>());
    }
    output
}

fn any_number(value: &Value, path: &[&str]) -> bool {
    match (path, value) {
        ([], value) => value.is_number(),
        (["*", rest @ ..], Value::Array(items)) => items.iter().any(|item| any_number(item, rest)),
        (["*", rest @ ..], Value::Object(fields)) => fields.values().any(|field| any_number(field, rest)),
        ([name, rest @ ..], Value::Object(fields)) => {
            fields.get(*name).is_some_and(|field| any_number(field, rest))
        }
        _ => false,
    }
}

fn quote(value: &mut Value, path: &[&str]) {
    match (path, value) {
        ([], value) if value.is_number() => *value = value.to_string().into(),
        (["*", rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| quote(item, rest)),
        (["*", rest @ ..], Value::Object(fields)) => {
            fields.values_mut().for_each(|field| quote(field, rest));
        }
        ([name, rest @ ..], Value::Object(fields)) => {
            fields.get_mut(*name).into_iter().for_each(|field| quote(field, rest));
        }
        _ => {}
    }
}

/// Rewrites amounts as upstream hands them back (`1024Mi` becomes `1Gi`), so that equal amounts are equal text.
/// What is no quantity stays, for validation to report.
pub fn canonicalize(resources: Option<&mut Resources>) {
    for amount in resources.into_iter().flat_map(BTreeMap::values_mut) {
        canonicalize_one(amount);
    }
}

pub fn canonicalize_one(amount: &mut Quantity) {
    if let Ok(text) = quantity::canonical(&amount.0) {
        amount.0 = text;
    }
}

pub fn positive(field: &str, amount: &Quantity) -> Option<Invalid> {
    at_least(field, amount, Ordering::Greater, "must be greater than zero")
}

pub fn non_negative(field: &str, amount: &Quantity) -> Option<Invalid> {
    at_least(field, amount, Ordering::Equal, "must be greater than or equal to 0")
}

fn at_least(field: &str, amount: &Quantity, least: Ordering, text: &str) -> Option<Invalid> {
    match quantity::sign_of(amount) {
        Ok(sign) if sign >= least => None,
        Ok(_) => Some(Invalid::invalid(field, amount.0.as_str(), text)),
        Err(bad) => Some(Invalid::invalid(field, amount.0.as_str(), bad.to_string())),
    }
}

/// Not below zero, in the words used where an amount is stored. The value is shown as a plain number.
pub fn stored(field: &str, amount: &Quantity) -> Option<Invalid> {
    match quantity::bytes_of(amount) {
        Ok(bytes) if bytes >= 0 => None,
        Ok(bytes) => Some(Invalid::invalid(field, bytes, "must be a valid resource quantity")),
        Err(bad) => Some(Invalid::invalid(field, amount.0.as_str(), bad.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_as_good_as_text() {
        let input = json!({"list": [{"limits": {"cpu": 1, "memory": "1Gi", "x": 0.5}}], "other": {"cpu": 1}, "size": 7});
        let output = accept_numbers(&input, &["list.*.limits.*", "size", "absent.*"]);
        let want = json!({"list": [{"limits": {"cpu": "1", "memory": "1Gi", "x": "0.5"}}], "other": {"cpu": 1}, "size": "7"});
        assert_eq!(*output, want);
        assert!(
            matches!(accept_numbers(&want, &["list.*.limits.*"]), Cow::Borrowed(_)),
            "nothing to do, no copy"
        );
    }
}
