//! Which of two versions is the newer: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all else by name.

use std::cmp::Ordering;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v1beta2",
            "v1beta1",
            "v12alpha1",
            "v11alpha2",
            "v10alpha1",
            "foo1",
            "foo10",
            "v1x",
        ];
        let mut versions = ordered;
        versions.reverse();
        versions.sort_by(|one, other| compare(one, other));
        assert_eq!(versions, ordered);
    }
}
