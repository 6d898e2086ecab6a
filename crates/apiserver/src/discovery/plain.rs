//! Discovery, one document per level.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::order::{groups as group_names, versions};
use super::subresources;
use crate::registry::{Kind, Registry};

/// `address` is where the client found this server.
pub fn core_versions(address: &str) -> Value {
    let server = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": address});
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [server]})
}

pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = group_names(registry).iter().filter_map(|name| entry(registry, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub fn group(registry: &Registry, group: &str) -> Option<Value> {
    let mut entry = entry(registry, group)?;
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.has_group_version(group, version) {
        return None;
    }
    let here = registry.kinds().filter(|kind| kind.info().group == group && kind.info().version == version);
    let resources: Vec<Value> = here.flat_map(|kind| described(kind.as_ref())).collect();
    let mut out = json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
    // The core group does not say what its list is, and never did.
    if !group.is_empty() {
        out["apiVersion"] = "v1".into();
        out["groupVersion"] = format!("{group}/{version}").into();
    }
    Some(out)
}

fn entry(registry: &Registry, group: &str) -> Option<Value> {
    let versions: Vec<Value> = versions(registry, group)
        .into_iter()
        .filter(|_| !group.is_empty())
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
}

fn described(kind: &dyn Kind) -> Vec<Value> {
    let info = kind.info();
    let mut main = json!({
        "name": info.names.plural,
        "singularName": info.names.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": info.verbs,
    });
    if !info.names.short.is_empty() {
        main["shortNames"] = json!(info.names.short);
    }
    if !info.names.categories.is_empty() {
        main["categories"] = json!(info.names.categories);
    }
    if info.verbs.contains(&"list") {
        main["storageVersionHash"] = storage_version_hash(kind).into();
    }
    let subs = subresources(info).into_iter().map(|(name, verbs, [group, version, kind])| {
        let mut sub = json!({
            "name": format!("{}/{name}", info.names.plural),
            "singularName": "",
            "namespaced": info.namespaced,
            "kind": kind,
            "verbs": verbs,
        });
        if (group, version) != (&*info.group, &*info.version) {
            sub["group"] = group.into();
            sub["version"] = version.into();
        }
        sub
    });
    std::iter::once(main).chain(subs).collect()
}

/// Changes when objects are stored in another version, so that whoever migrates them knows.
fn storage_version_hash(kind: &dyn Kind) -> String {
    let info = kind.info();
    let version = kind.storage_version().unwrap_or(&info.version);
    let digest = Sha256::digest(format!("{}/{version}/{}", info.group, info.kind));
    STANDARD.encode(&digest[..8])
}
