//! Names inside objects; what a name may look like is in `bowline_api::name`.

use std::collections::BTreeMap;

use bowline_api::name;

use crate::field::Invalid;
use crate::kinds::check;

/// Longest name of a CSI driver where it is a field. As an object's name there is no such limit.
const DRIVER_MAX: usize = 63;
/// All annotations of an object together.
pub const ANNOTATIONS_MAX: usize = 256 << 10;

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

/// A name of a port.
pub fn port(field: &str, value: &str) -> Vec<Invalid> {
    each(field, value, name::port_errors(value))
}

/// A name, or the beginning of one: it may end with a dash.
pub fn subdomain_prefix(field: &str, value: &str) -> Vec<Invalid> {
    let whole = value.strip_suffix('-').map_or_else(|| value.to_owned(), |start| format!("{start}a"));
    each(field, value, name::subdomain_errors(&whole))
}

/// Keys of annotations, whose case does not matter, and their size.
pub fn annotations(field: &str, annotations: Option<&BTreeMap<String, String>>) -> Vec<Invalid> {
    let pairs = annotations.into_iter().flatten();
    annotation_pairs(field, pairs.map(|(key, value)| (key.as_str(), value.as_str())))
}

pub fn annotation_pairs<'a>(
    field: &str,
    annotations: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> = annotations
        .clone()
        .flat_map(|(key, _)| each(field, key, name::qualified_name_errors(&key.to_lowercase())))
        .collect();
    if annotations.map(|(key, value)| key.len() + value.len()).sum::<usize>() > ANNOTATIONS_MAX {
        errors.push(check::too_long(field, ANNOTATIONS_MAX));
    }
    errors
}

/// `domain/path`, as controllers call themselves.
pub fn domain_prefixed_path(field: &str, value: &str) -> Vec<Invalid> {
    let Some((domain, path)) =
        value.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return match value {
            "" => vec![Invalid::required(field, "")],
            _ => vec![Invalid::invalid(field, value, text)],
        };
    };
    let mut errors = each(field, domain, name::subdomain_errors(domain));
    let fine = |c: u8| c.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&c);
    if !path.bytes().all(fine) {
        let text = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(Invalid::invalid(field, path, text));
    }
    errors
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
