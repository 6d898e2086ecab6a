//! What a volume may look like.

use bowline_api::volume::{BLOCK, FILESYSTEM, STORAGE};
use k8s_openapi::api::core::v1::PersistentVolumeSpec;

use super::source;
use crate::field::Invalid;
use crate::kinds::check::{self, access_modes, names, quantities, same, selectors};

const MODES: [&str; 2] = [BLOCK, FILESYSTEM];
const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";

/// The spec of a volume object.
pub fn errors(spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let at = |field: &str| format!("spec.{field}");
    let mut errors = mode_errors("spec", spec);
    errors.extend(capacity_errors(spec));
    let policy = spec.persistent_volume_reclaim_policy.as_deref().unwrap_or_default();
    if !policy.is_empty() {
        errors.extend(check::one_of(&at("persistentVolumeReclaimPolicy"), policy, &POLICIES));
    }
    errors.extend(affinity_errors(spec));
    errors.extend(source::errors("spec", spec));
    if policy == "Recycle" && spec.host_path.as_ref().is_some_and(|path| is_root(&path.path)) {
        let text = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Invalid::forbidden(at("persistentVolumeReclaimPolicy"), text));
    }
    errors.extend(names::optional_subdomain(&at("storageClassName"), spec.storage_class_name.as_deref()));
    let mode = spec.volume_mode.as_deref();
    errors.extend(mode.and_then(|mode| check::one_of(&at("volumeMode"), mode, &MODES)));
    errors.extend(attributes_class_errors("spec", spec));
    errors
}

/// The spec inside an attachment of a volume that has no object of its own: CSI only, and nothing about claims.
pub fn inline_errors(field: &str, spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let at = |name: &str| format!("{field}.{name}");
    let mut errors = Vec::new();
    if spec.claim_ref.is_some() {
        errors.push(Invalid::forbidden(at("claimRef"), NOT_INLINE));
    }
    if spec.capacity.as_ref().is_some_and(|capacity| !capacity.is_empty()) {
        errors.push(Invalid::forbidden(at("capacity"), NOT_INLINE));
    }
    if spec.csi.is_none() {
        errors.push(Invalid::required(at("csi"), "has to be specified in the context of inline volumes"));
    }
    errors.extend(mode_errors(field, spec));
    let policy = spec.persistent_volume_reclaim_policy.as_deref().unwrap_or_default();
    if !matches!(policy, "" | "Retain") {
        let text = "may only be Retain in the context of inline volumes";
        errors.push(Invalid::forbidden(at("persistentVolumeReclaimPolicy"), text));
    }
    if spec.node_affinity.is_some() {
        errors.push(Invalid::forbidden(at("nodeAffinity"), NOT_INLINE));
    }
    errors.extend(source::errors(field, spec));
    if !spec.storage_class_name.as_deref().unwrap_or_default().is_empty() {
        errors.push(Invalid::forbidden(at("storageClassName"), NOT_INLINE));
    }
    if spec.volume_mode.as_deref().is_some_and(|mode| mode != FILESYSTEM) {
        let text = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(Invalid::forbidden(at("volumeMode"), text));
    }
    errors
}

fn mode_errors(field: &str, spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    access_modes::access_modes(&format!("{field}.accessModes"), modes, "")
}

/// Storage and nothing else, and more than none of it.
fn capacity_errors(spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let capacity = spec.capacity.clone().unwrap_or_default();
    let mut errors = Vec::new();
    if capacity.is_empty() {
        errors.push(Invalid::required("spec.capacity", ""));
    }
    if !capacity.contains_key(STORAGE) || capacity.len() > 1 {
        errors.push(Invalid::not_supported("spec.capacity", same::json(&spec.capacity), &[STORAGE]));
    }
    for (name, amount) in &capacity {
        let at = format!("spec.capacity[{name}]");
        // A negative amount breaks both rules and upstream says so twice; one parse error is enough.
        let stored = quantities::stored(&at, amount).filter(|e| e.value.as_ref().is_some_and(|v| v.is_i64()));
        errors.extend(stored);
        errors.extend(quantities::positive(&at, amount));
    }
    errors
}

fn affinity_errors(spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let Some(affinity) = &spec.node_affinity else { return Vec::new() };
    let at = "spec.nodeAffinity.required";
    match &affinity.required {
        Some(required) => selectors::node_selector(at, required),
        None => vec![Invalid::required(at, "must specify required node constraints")],
    }
}

fn attributes_class_errors(field: &str, spec: &PersistentVolumeSpec) -> Vec<Invalid> {
    let at = format!("{field}.volumeAttributesClassName");
    let mut errors = match spec.volume_attributes_class_name.as_deref() {
        None => return Vec::new(),
        Some("") => vec![Invalid::required(at, "an empty string is disallowed")],
        Some(class) => names::subdomain(&at, class),
    };
    if spec.csi.is_none() {
        let text = "has to be specified when using volumeAttributesClassName";
        errors.push(Invalid::required(format!("{field}.csi"), text));
    }
    errors
}

/// `/`, however it is written.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}
