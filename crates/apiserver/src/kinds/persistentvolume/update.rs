//! What may not change in a volume. Several paths lack their `spec.`: so upstream spells them.

use bowline_api::keys::RENAMED_NODE_LABELS;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, PersistentVolumeSpec, VolumeNodeAffinity};

use crate::field::Invalid;
use crate::kinds::check::go;
use crate::kinds::check::same::{immutable, json, same};

pub fn errors(new: &PersistentVolumeSpec, old: &PersistentVolumeSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let (after, before) = (source(new, Some(old)), source(old, None));
    if !same(&after, &before) {
        let changes = go::difference("core.v1.PersistentVolumeSource", &before, &after);
        let text = format!("spec.persistentvolumesource is immutable after creation\n{changes}");
        errors.push(Invalid::forbidden("spec.persistentvolumesource", text));
    }
    errors.extend(immutable("volumeMode", &new.volume_mode, &old.volume_mode));
    if let Some(before) = &old.node_affinity {
        errors.extend(affinity_error(new.node_affinity.as_ref(), before));
    }
    if old.volume_attributes_class_name.is_some() && new.volume_attributes_class_name.is_none() {
        let text = "update from non-nil value to nil is forbidden";
        errors.push(Invalid::forbidden("spec.volumeAttributesClassName", text));
    }
    errors
}

/// The spec with nothing but its source. A secret for expanding may be added to volumes that have none.
fn source(spec: &PersistentVolumeSpec, old: Option<&PersistentVolumeSpec>) -> PersistentVolumeSpec {
    let mut source = PersistentVolumeSpec {
        access_modes: None,
        capacity: None,
        claim_ref: None,
        mount_options: None,
        node_affinity: None,
        persistent_volume_reclaim_policy: None,
        storage_class_name: None,
        volume_attributes_class_name: None,
        volume_mode: None,
        ..spec.clone()
    };
    let had = old.and_then(|o| o.csi.as_ref()).map(|csi| csi.controller_expand_secret_ref.is_some());
    if let (Some(csi), Some(false)) = (&mut source.csi, had) {
        csi.controller_expand_secret_ref = None;
    }
    source
}

/// Fixed once set, but old names of node labels may become the new ones.
fn affinity_error(new: Option<&VolumeNodeAffinity>, old: &VolumeNodeAffinity) -> Option<Invalid> {
    let mut renamed = old.clone();
    if let Some(new) = new {
        for (before, after) in requirements(&mut renamed).zip(requirements(&mut new.clone())) {
            if RENAMED_NODE_LABELS.contains(&(before.key.as_str(), after.key.as_str())) {
                before.key.clone_from(&after.key);
            }
        }
    }
    (!same(&new, &Some(&renamed))).then(|| {
        let text = "field is immutable, except for updating from beta label to GA";
        Invalid::invalid("nodeAffinity", json(&new), text)
    })
}

fn requirements(affinity: &mut VolumeNodeAffinity) -> impl Iterator<Item = &mut NodeSelectorRequirement> {
    let terms = affinity.required.iter_mut().flat_map(|required| &mut required.node_selector_terms);
    terms.flat_map(|term| term.match_expressions.iter_mut().flatten())
}
