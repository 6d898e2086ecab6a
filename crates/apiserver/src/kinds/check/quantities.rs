//! Amounts, and the one notation in which they are kept.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bowline_api::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::field::Invalid;

pub type Resources = BTreeMap<String, Quantity>;

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
