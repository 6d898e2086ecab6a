//! The order of groups and versions, which is the order in which clients prefer them.

use std::cmp::Reverse;

use crate::registry::Registry;

/// Upstream's groups, the ones that win first. Groups that clients define come after them, by name.
const GROUPS: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Named groups, each once.
pub fn groups(registry: &Registry) -> Vec<&str> {
    let mut names: Vec<&str> = registry.group_versions().into_iter().map(|(group, _)| group).collect();
    names.dedup();
    names.retain(|name| !name.is_empty());
    let place = |name: &&str| GROUPS.iter().position(|known| known == name).unwrap_or(GROUPS.len());
    names.sort_by_key(|name| (place(name), *name));
    names
}

/// The versions of a group, the preferred one first.
pub fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let all = registry.group_versions().into_iter().filter(|(name, _)| *name == group);
    let mut versions: Vec<&str> = all.map(|(_, version)| version).collect();
    versions.sort_by_key(|version| rank(version));
    versions
}

/// Stable before beta before alpha before any other name; of each the greater number first.
fn rank(version: &str) -> (u8, Reverse<u64>, Reverse<u64>, &str) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (major, rest) = rest.split_at(digits);
        let major: u64 = major.parse().ok()?;
        let (class, minor) = match rest {
            "" => return Some((0, major, 0)),
            _ => rest
                .strip_prefix("beta")
                .map(|minor| (1, minor))
                .or(rest.strip_prefix("alpha").map(|minor| (2, minor)))?,
        };
        Some((class, major, minor.parse().ok()?))
    };
    match parsed() {
        Some((class, major, minor)) => (class, Reverse(major), Reverse(minor), ""),
        None => (3, Reverse(0), Reverse(0), version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_kubernetes_ranks_them() {
        let mut versions = [
            "foo10",
            "v1",
            "v10alpha1",
            "v2",
            "v11beta2",
            "foo1",
            "v3beta1",
            "v10",
            "v12alpha1",
            "v11alpha2",
            "v10beta3",
        ];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "v10alpha1",
                "foo1",
                "foo10"
            ]
        );
    }
}
