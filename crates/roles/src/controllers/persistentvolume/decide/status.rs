//! The status a claim should show.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, bytes_of, keys, volume};
use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Status of a claim in this phase; with a volume when Bound, without when Pending or Lost.
///
/// Capacity is copied only when the phase changes: later differences belong to an expansion in progress.
pub fn claim_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    bound_to: Option<&PersistentVolume>,
) -> PersistentVolumeClaimStatus {
    let mut status = claim.status.clone().unwrap_or_default();
    let before = status.phase.replace(phase.to_owned()).unwrap_or_default();
    let Some(bound_to) = bound_to else {
        status.access_modes = None;
        status.capacity = None;
        status.current_volume_attributes_class_name = None;
        return status;
    };
    status.access_modes = bound_to.spec.as_ref().and_then(|s| s.access_modes.clone());
    if before != phase {
        status.capacity = shown_capacity(bound_to);
    }
    if before == volume::PENDING {
        let class = volume::volume_attributes_class(bound_to);
        status.current_volume_attributes_class_name = (!class.is_empty()).then(|| class.to_owned());
    }
    status
}

/// Whether a claim already shows that status. A list or map that is empty is one that is not there.
pub fn shows(claim: &PersistentVolumeClaim, phase: &str, bound_to: Option<&PersistentVolume>) -> bool {
    let without_empty = |mut status: PersistentVolumeClaimStatus| {
        status.access_modes = status.access_modes.filter(|modes| !modes.is_empty());
        status.capacity = status.capacity.filter(|capacity| !capacity.is_empty());
        let class = status.current_volume_attributes_class_name.take();
        status.current_volume_attributes_class_name = class.filter(|class| !class.is_empty());
        status
    };
    let shown = without_empty(claim.status.clone().unwrap_or_default());
    shown == without_empty(claim_status(claim, phase, bound_to))
}

/// The size before an expansion that the node has not finished, otherwise the volume's own.
fn shown_capacity(of: &PersistentVolume) -> Option<std::collections::BTreeMap<String, Quantity>> {
    let before_resize = of.annotation(keys::PRE_RESIZE_CAPACITY).map(|text| Quantity(text.into()));
    match before_resize.filter(|quantity| bytes_of(quantity).is_ok()) {
        Some(quantity) => Some([(volume::STORAGE.to_owned(), quantity)].into()),
        None => of.spec.as_ref().and_then(|s| s.capacity.clone()),
    }
}
