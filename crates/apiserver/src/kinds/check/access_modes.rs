//! Access modes of claims and volumes.

use bowline_api::volume::{READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD};

use crate::field::Invalid;

const MODES: [(&str, &str); 4] = [
    (READ_WRITE_ONCE, "RWO"),
    (READ_ONLY_MANY, "ROX"),
    (READ_WRITE_MANY, "RWX"),
    (READ_WRITE_ONCE_POD, "RWOP"),
];

/// `missing` is the text for an empty list, which claims have and volumes have not.
pub fn access_modes(field: &str, modes: &[String], missing: &str) -> Vec<Invalid> {
    if modes.is_empty() {
        return vec![Invalid::required(field, missing)];
    }
    let supported = MODES.map(|(mode, _)| mode);
    let known = |mode: &&String| supported.contains(&mode.as_str());
    let unknown = modes.iter().filter(|mode| !known(mode));
    let mut errors: Vec<Invalid> =
        unknown.map(|mode| Invalid::not_supported(field, mode.as_str(), &supported)).collect();
    let single_pod = modes.iter().any(|mode| mode == READ_WRITE_ONCE_POD);
    if single_pod && modes.iter().filter(known).any(|mode| mode != READ_WRITE_ONCE_POD) {
        errors.push(Invalid::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

/// `RWO,ROX,RWX,RWOP`: always in this order, each once.
pub fn short(modes: &[String]) -> String {
    let shown = MODES.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
