//! What a class asks of a driver.

use std::collections::BTreeMap;

use super::{names, too_long};
use crate::field::Invalid;

const COUNT_MAX: usize = 512;
const BYTES_MAX: usize = 256 << 10;

/// Who provides what a class stands for. The case does not matter, but upstream shows the folded name.
pub fn provisioner(field: &str, name: &str) -> Vec<Invalid> {
    match name {
        "" => vec![Invalid::required(field, "")],
        name => names::qualified(field, &name.to_lowercase()),
    }
}

pub fn errors(field: &str, parameters: Option<&BTreeMap<String, String>>) -> Vec<Invalid> {
    let parameters = || parameters.into_iter().flatten();
    if parameters().count() > COUNT_MAX {
        return vec![too_long(field, COUNT_MAX)];
    }
    let unnamed = parameters().filter(|(key, _)| key.is_empty());
    let mut errors: Vec<Invalid> =
        unnamed.map(|_| Invalid::invalid(field, "", "field can not be empty.")).collect();
    if parameters().map(|(key, value)| key.len() + value.len()).sum::<usize>() > BYTES_MAX {
        errors.push(too_long(field, BYTES_MAX));
    }
    errors
}
