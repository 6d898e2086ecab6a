//! The order of groups and versions, which is the order in which clients prefer them.

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
    all.map(|(_, version)| version).collect()
}
