//! What may not change in a claim.

use std::cmp::Ordering;

use bowline_api::volume::{STORAGE, claim_phase, requested};
use bowline_api::{Meta, PersistentVolumeClaim, keys, quantity};
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::field::Invalid;
use crate::kinds::check::go;
use crate::kinds::check::same::{alike, immutable};

const SPEC: &str = "core.v1.PersistentVolumeClaimSpec";
const FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub fn errors(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> Vec<Invalid> {
    let after = new.spec.clone().unwrap_or_default();
    let before = old.spec.clone().unwrap_or_default();
    let mut errors: Vec<Invalid> = annotation_error(new, old).into_iter().collect();
    let allowed = allowed(new, old, &after, &before);
    if !alike(SPEC, &allowed, &before) {
        let text = format!("{FIXED}\n{}", go::difference(SPEC, &before, &allowed));
        errors.push(Invalid::forbidden("spec", text));
    }
    errors.extend(shrink_error(&after, &before, old));
    errors.extend(immutable("volumeMode", &after.volume_mode, &before.volume_mode));
    errors.extend(attributes_class_error(&after, &before, old));
    errors
}

/// The new spec with every permitted change taken back; what still differs is refused.
fn allowed(
    new: &PersistentVolumeClaim,
    old: &PersistentVolumeClaim,
    after: &PersistentVolumeClaimSpec,
    before: &PersistentVolumeClaimSpec,
) -> PersistentVolumeClaimSpec {
    let mut spec = after.clone();
    if before.volume_name.as_deref().unwrap_or_default().is_empty() {
        spec.volume_name.clone_from(&before.volume_name);
    }
    if class_from_annotation(new, old) || class_from_nothing(after, old) {
        spec.storage_class_name.clone_from(&before.storage_class_name);
    }
    if claim_phase(new) == "Bound" {
        let stored = requested(before).cloned();
        let requests = spec.resources.as_mut().and_then(|r| r.requests.as_mut());
        if let (Some(requests), Some(stored)) = (requests, stored) {
            requests.insert(STORAGE.into(), stored);
        }
        spec.volume_attributes_class_name.clone_from(&before.volume_attributes_class_name);
    }
    spec
}

fn class(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref()
}

/// The class moves from the old annotation into the field.
fn class_from_annotation(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let Some(annotated) = old.annotation(keys::STORAGE_CLASS_BETA) else { return false };
    let kept = new.annotation(keys::STORAGE_CLASS_BETA).is_none_or(|class| class == annotated);
    class(old).is_none() && class(new) == Some(annotated) && kept
}

/// A claim without a class gets one later, when there is a default.
fn class_from_nothing(after: &PersistentVolumeClaimSpec, old: &PersistentVolumeClaim) -> bool {
    let Some(chosen) = after.storage_class_name.as_deref() else { return false };
    let annotated = old.annotation(keys::STORAGE_CLASS_BETA);
    class(old).is_none() && annotated.is_none_or(|annotated| annotated == chosen)
}

fn annotation_error(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> Option<Invalid> {
    let value = |claim: &PersistentVolumeClaim| {
        claim.annotation(keys::STORAGE_CLASS_BETA).unwrap_or_default().to_owned()
    };
    let changed = value(new) != value(old) && !class_from_annotation(new, old);
    let at = format!("metadata.annotations.{}", keys::STORAGE_CLASS_BETA);
    changed.then(|| Invalid::invalid(at, value(new), "field is immutable"))
}

/// A request that could not be met may be lowered again, but not to what the volume already has.
fn shrink_error(
    after: &PersistentVolumeClaimSpec,
    before: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaim,
) -> Option<Invalid> {
    let zero = Quantity("0".into());
    let capacity = old.status.as_ref().and_then(|s| s.capacity.as_ref()).and_then(|c| c.get(STORAGE));
    let wanted = requested(after).unwrap_or(&zero);
    let smaller = quantity::compare(wanted, requested(before).unwrap_or(&zero)) == Ok(Ordering::Less);
    let above = quantity::compare(wanted, capacity.unwrap_or(&zero)) == Ok(Ordering::Greater);
    (smaller && !above).then(|| {
        Invalid::forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    })
}

fn attributes_class_error(
    after: &PersistentVolumeClaimSpec,
    before: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaim,
) -> Option<Invalid> {
    let current = old.status.as_ref().and_then(|s| s.current_volume_attributes_class_name.as_ref());
    if after.volume_attributes_class_name == before.volume_attributes_class_name || current.is_none() {
        return None;
    }
    let to = match after.volume_attributes_class_name.as_deref() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return None,
    };
    let text = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    Some(Invalid::forbidden("spec.volumeAttributesClassName", text))
}
