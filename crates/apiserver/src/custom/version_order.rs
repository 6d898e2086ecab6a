//! Which of two versions is the newer: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all else by name.

use std::cmp::Ordering;

use super::definition::{Spec, Version};

/// Stable before beta before alpha, newer before older.
pub fn compare(one: &str, other: &str) -> Ordering {
    match (rank(one), rank(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// Stability, major and minor of a version that is written as versions are.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}

/// What clients of a deprecated version are told.
pub fn deprecation(spec: &Spec, version: &Version) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first() {
        let mut versions =
            ["foo10", "v1alpha1", "v1beta1", "v3beta1", "v1", "v10", "v2", "v1beta2", "foo1", "v1x"];
        versions.sort_by(|one, other| compare(one, other));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v3beta1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10", "v1x"]
        );
    }
}
