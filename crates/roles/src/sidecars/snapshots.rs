//! What snapshot-controller and csi-snapshotter share: when their kinds are served, how objects point at each other, secrets.

mod secrets;
mod served;

use bowline_api::{Meta, VolumeSnapshot, VolumeSnapshotContent, keys};
use serde_json::{Value, json};

pub(super) use secrets::{Names, for_driver, secret};
pub(super) use served::{SNAPSHOTS, served};

pub(super) fn is_ready(snapshot: &VolumeSnapshot) -> bool {
    snapshot.status.as_ref().and_then(|status| status.ready_to_use) == Some(true)
}

/// The content that the status names.
pub(super) fn bound_content(snapshot: &VolumeSnapshot) -> Option<&str> {
    let name = snapshot.status.as_ref()?.bound_volume_snapshot_content_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// Whether a content is this very snapshot's: by name, namespace and UID.
pub(super) fn points_back(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let reference = &content.spec.volume_snapshot_ref;
    refers(content, snapshot) && reference.uid.as_deref() == Some(snapshot.uid())
}

/// The same whatever the UID.
pub(super) fn refers(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let reference = &content.spec.volume_snapshot_ref;
    reference.name.as_deref() == Some(snapshot.name())
        && reference.namespace.as_deref() == Some(snapshot.namespace())
}

/// Whether this content belongs to a member of a group.
pub(super) fn is_member_content(content: &VolumeSnapshotContent) -> bool {
    content.annotation(keys::GROUP_SNAPSHOT_HANDLE).is_some()
        || content.status.as_ref().is_some_and(|status| status.volume_group_snapshot_handle.is_some())
}

/// A merge patch that adds or removes finalizers of exactly the object that was seen.
pub(super) fn finalizers_patch<K: Meta>(object: &K, add: &[&str], remove: &[&str]) -> Value {
    let there = object.meta().finalizers.as_deref().unwrap_or_default();
    let mut all: Vec<&str> = there.iter().map(String::as_str).filter(|one| !remove.contains(one)).collect();
    for one in add {
        if !all.contains(one) {
            all.push(one);
        }
    }
    json!({"metadata": {"resourceVersion": object.meta().resource_version, "finalizers": all}})
}

/// A merge patch of one annotation; `null` removes it.
pub(super) fn annotation_patch<K: Meta>(object: &K, key: &str, value: Option<&str>) -> Value {
    json!({"metadata": {"resourceVersion": object.meta().resource_version, "annotations": {key: value}}})
}

#[cfg(test)]
mod tests;
