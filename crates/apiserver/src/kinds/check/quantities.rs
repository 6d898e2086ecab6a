//! Amounts. They come in upstream's notation: the schema saw to that.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bowline_api::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::field::Invalid;

pub type Resources = BTreeMap<String, Quantity>;

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
