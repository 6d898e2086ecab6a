//! Names inside objects; what a name may look like is in `bowline_api::name`.

use bowline_api::name;

use crate::field::Invalid;
use crate::kinds::check;

/// Longest name of a CSI driver where it is a field. As an object's name there is no such limit.
const DRIVER_MAX: usize = 63;

fn each(field: &str, value: &str, texts: Vec<String>) -> Vec<Invalid> {
    texts.into_iter().map(|text| Invalid::invalid(field, value, text)).collect()
}

pub fn subdomain(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::subdomain_errors(value))
}

pub fn label(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::label_errors(value))
}

pub fn qualified(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::qualified_name_errors(value))
}

pub fn label_value(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::label_value_errors(value))
}

pub fn config_key(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::config_key_errors(value))
}

/// A name that has to fit into a URL and nothing else.
pub fn path_segment(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::path_segment_errors(value))
}

/// A DNS label that must be there.
pub fn required_label(field: &str, value: &str) -> Vec<Invalid> {
    if value.is_empty() { vec![Invalid::required(field, "")] } else { label(field, value) }
}

/// A name that may be left out.
pub fn optional_subdomain(field: &str, value: Option<&str>) -> Vec<Invalid> {
    value.filter(|v| !v.is_empty()).map(|v| subdomain(field, v)).unwrap_or_default()
}

/// A CSI driver: short, and a subdomain whatever its case.
pub fn driver(field: &str, value: &str) -> Vec<Invalid> {
    if value.is_empty() {
        return vec![Invalid::required(field, "")];
    }
    let long = (value.len() > DRIVER_MAX).then(|| check::too_long(field, DRIVER_MAX));
    let shape = each(field, value, name::subdomain_errors(&value.to_lowercase()));
    long.into_iter().chain(shape).collect()
}
