//! Versions that clients should leave.

use super::definition::{Spec, Version};
use crate::registry::version_order::compare;

/// What clients of a deprecated version are told.
pub fn text(spec: &Spec, version: &Version) -> Option<String> {
    if !version.deprecated {
        return None;
    }
    if let Some(text) = &version.deprecation_warning {
        return Some(text.clone());
    }
    let named = |name: &str| format!("{}/{name} {}", spec.group, spec.names.kind);
    let better =
        |other: &&Version| other.served && !other.deprecated && compare(&other.name, &version.name).is_lt();
    let newest = spec.versions.iter().filter(better).min_by(|one, other| compare(&one.name, &other.name));
    let instead = newest.map(|newest| format!("; use {}", named(&newest.name))).unwrap_or_default();
    Some(format!("{} is deprecated{instead}", named(&version.name)))
}
