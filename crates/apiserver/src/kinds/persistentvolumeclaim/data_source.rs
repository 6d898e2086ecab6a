//! What a claim may start from: `dataSource`, and `dataSourceRef` which can name anything.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, TypedLocalObjectReference, TypedObjectReference,
};
use serde_json::json;

use crate::field::Invalid;
use crate::kinds::check::{self, names};

const CLAIM: &str = "PersistentVolumeClaim";
const SNAPSHOT: (&str, &str) = ("snapshot.storage.k8s.io", "VolumeSnapshot");

/// Drops what is not supported and copies the one field to the other. `old` is what is stored, if anything.
pub fn settle(spec: &mut PersistentVolumeClaimSpec, old: Option<&PersistentVolumeClaimSpec>) {
    let foreign = namespace(spec.data_source_ref.as_ref()).is_some();
    if foreign && old.is_none_or(|old| old.data_source_ref.is_none()) {
        // Sources in other namespaces are behind a feature gate that is off.
        spec.data_source_ref = None;
    }
    let known = spec.data_source.as_ref().is_some_and(claim_or_snapshot);
    if old.is_none_or(|old| old.data_source.is_none()) && spec.data_source_ref.is_none() && !known {
        spec.data_source = None;
    }
    match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), None) => spec.data_source_ref = Some(widened(source)),
        (None, Some(reference)) if namespace(Some(reference)).is_none() => {
            spec.data_source = Some(TypedLocalObjectReference {
                api_group: reference.api_group.clone(),
                kind: reference.kind.clone(),
                name: reference.name.clone(),
            });
        }
        _ => {}
    }
}

fn namespace(reference: Option<&TypedObjectReference>) -> Option<&str> {
    reference?.namespace.as_deref().filter(|namespace| !namespace.is_empty())
}

fn claim_or_snapshot(source: &TypedLocalObjectReference) -> bool {
    let group = source.api_group.as_deref().unwrap_or_default();
    (group.is_empty() && source.kind == CLAIM) || (group, source.kind.as_str()) == SNAPSHOT
}

fn widened(source: &TypedLocalObjectReference) -> TypedObjectReference {
    let TypedLocalObjectReference { api_group, kind, name } = source.clone();
    TypedObjectReference { api_group, kind, name, namespace: None }
}

pub fn errors(field: &str, spec: &PersistentVolumeClaimSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    if let Some(source) = &spec.data_source {
        errors.extend(reference_errors(&format!("{field}.dataSource"), &widened(source)));
    }
    if let Some(reference) = &spec.data_source_ref {
        errors.extend(reference_errors(&format!("{field}.dataSourceRef"), reference));
    }
    if let (Some(source), Some(reference)) = (&spec.data_source, &spec.data_source_ref) {
        let plain = |r: TypedObjectReference| (r.api_group.unwrap_or_default(), r.kind, r.name);
        if namespace(Some(reference)).is_some() {
            let text = "may not be specified when dataSourceRef.namespace is specified";
            errors.push(Invalid::invalid(field, json!({}), text));
        } else if plain(widened(source)) != plain(reference.clone()) {
            errors.push(Invalid::invalid(field, json!({}), "must match dataSourceRef"));
        }
    }
    errors
}

fn reference_errors(at: &str, reference: &TypedObjectReference) -> Vec<Invalid> {
    let mut errors = Vec::new();
    errors.extend(check::required(&format!("{at}.name"), Some(&reference.name)));
    errors.extend(check::required(&format!("{at}.kind"), Some(&reference.kind)));
    match reference.api_group.as_deref().unwrap_or_default() {
        "" if reference.kind != CLAIM => {
            let text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(Invalid::invalid(at, reference.kind.as_str(), text));
        }
        "" => {}
        group => errors.extend(names::subdomain(&format!("{at}.apiGroup"), group)),
    }
    if let Some(namespace) = namespace(Some(reference)) {
        errors.extend(names::label(&format!("{at}.namespace"), namespace));
    }
    errors
}
