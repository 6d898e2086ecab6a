//! Discovery, one document per level.

use serde_json::{Value, json};

use super::subresources;
use crate::registry::{KindInfo, Registry};

pub fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = names(registry).iter().filter_map(|name| entry(registry, name)).collect();
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
    let infos = registry.kinds().map(|kind| kind.info());
    let here = infos.filter(|info| info.group == group && info.version == version);
    let resources: Vec<Value> = here.flat_map(described).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

/// Named groups, each once.
pub fn names(registry: &Registry) -> Vec<&str> {
    let mut names: Vec<&str> = registry.group_versions().into_iter().map(|(group, _)| group).collect();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

fn entry(registry: &Registry, group: &str) -> Option<Value> {
    let all = registry.group_versions();
    let versions: Vec<Value> = all
        .iter()
        .filter(|(name, _)| *name == group && !group.is_empty())
        .map(|(name, version)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
}

fn described(info: &KindInfo) -> Vec<Value> {
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
    let subs = subresources(info).into_iter().map(|(name, verbs, [group, version, kind])| {
        let mut sub = json!({
            "name": format!("{}/{name}", info.names.plural),
            "singularName": "",
            "namespaced": info.namespaced,
            "kind": kind,
            "verbs": verbs,
        });
        if kind != info.kind {
            sub["group"] = group.into();
            sub["version"] = version.into();
        }
        sub
    });
    std::iter::once(main).chain(subs).collect()
}
