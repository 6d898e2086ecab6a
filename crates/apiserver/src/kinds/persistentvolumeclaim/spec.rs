//! What a claim may ask for. Templates of ephemeral volumes ask in the same words.

use bowline_api::volume::{BLOCK, FILESYSTEM, STORAGE};
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use super::data_source;
use crate::field::Invalid;
use crate::kinds::check::{self, access_modes, names, quantities, selectors};

const MODES: [&str; 2] = [BLOCK, FILESYSTEM];
const NO_MODES: &str = "at least 1 access mode is required";

pub fn default_fields(spec: &mut PersistentVolumeClaimSpec) {
    spec.volume_mode.get_or_insert_with(|| FILESYSTEM.into());
    spec.resources.get_or_insert_default();
}

pub fn errors(field: &str, spec: &PersistentVolumeClaimSpec) -> Vec<Invalid> {
    let at = |name: &str| format!("{field}.{name}");
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    let mut errors = access_modes::access_modes(&at("accessModes"), modes, NO_MODES);
    errors.extend(spec.selector.iter().flat_map(|s| selectors::label_selector(&at("selector"), s)));
    errors.extend(request_errors(&at("resources[storage]"), spec));
    errors.extend(names::optional_subdomain(&at("storageClassName"), spec.storage_class_name.as_deref()));
    let mode = spec.volume_mode.as_deref();
    errors.extend(mode.and_then(|mode| check::one_of(&at("volumeMode"), mode, &MODES)));
    errors.extend(data_source::errors(field, spec));
    let class = spec.volume_attributes_class_name.as_deref();
    errors.extend(names::optional_subdomain(&at("volumeAttributesClassName"), class));
    errors
}

fn request_errors(at: &str, spec: &PersistentVolumeClaimSpec) -> Option<Invalid> {
    let requests = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    match requests.and_then(|requests| requests.get(STORAGE)) {
        None => Some(Invalid::required(at, "")),
        Some(amount) => quantities::positive(at, amount),
    }
}
