//! Which lists merge by a key, which as sets, and which are replaced: the `patchStrategy` of upstream's
//! types, for the kinds served here.

/// How a strategic merge treats a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    Replace,
    /// Elements are objects, matched by this field.
    MergeBy(&'static str),
    /// Elements are primitives; new ones are added.
    Set,
}

/// `path` leads from the root to the list, without positions. Field names are unique enough in these kinds
/// that their parent decides only where it must.
pub fn list_kind(path: &[&str]) -> ListKind {
    use ListKind::{MergeBy, Replace, Set};
    let (Some(field), parent) = (path.last(), path.iter().rev().nth(1).copied()) else { return Replace };
    match (*field, parent) {
        ("finalizers", Some("metadata" | "spec")) => Set,
        ("ownerReferences", Some("metadata")) => MergeBy("uid"),
        ("containers" | "initContainers" | "ephemeralContainers" | "volumes", _) => MergeBy("name"),
        ("env" | "resourceClaims" | "schedulingGates" | "imagePullSecrets", _) => MergeBy("name"),
        ("ports", Some("containers" | "initContainers" | "ephemeralContainers")) => MergeBy("containerPort"),
        ("ports", Some("spec")) => MergeBy("port"),
        ("volumeMounts", _) => MergeBy("mountPath"),
        ("volumeDevices", _) => MergeBy("devicePath"),
        ("topologySpreadConstraints", _) => MergeBy("topologyKey"),
        ("hostAliases", _) => MergeBy("ip"),
        ("podIPs" | "hostIPs", Some("status")) => MergeBy("ip"),
        ("conditions", Some("status")) => MergeBy("type"),
        ("addresses", Some("status")) => MergeBy("type"),
        ("podCIDRs", Some("spec")) => Set,
        ("drivers", Some("spec")) => MergeBy("name"),
        ("resourceClaimStatuses", Some("status")) => MergeBy("name"),
        // Of a service account, at the root.
        ("secrets", None) => MergeBy("name"),
        _ => Replace,
    }
}
