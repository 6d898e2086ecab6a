//! PersistentVolumeClaimResize: only claims whose class allows it may grow.

use std::cmp::Ordering;

use bowline_api::{PersistentVolumeClaim, StorageClass, quantity, volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NOT_BOUND: &str = "Only bound persistent volume claims can be expanded";
const NOT_DYNAMIC: &str = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";

/// Why a claim may not grow, if it wants to. `class` finds a class by name.
pub fn resize_refusal(
    new: &PersistentVolumeClaim,
    old: &PersistentVolumeClaim,
    class: impl Fn(&str) -> Option<StorageClass>,
) -> Option<&'static str> {
    let zero = Quantity("0".into());
    let [after, before] =
        [new, old].map(|claim| claim.spec.as_ref().and_then(volume::requested).unwrap_or(&zero));
    if quantity::compare(after, before) != Ok(Ordering::Greater) {
        return None;
    }
    if volume::claim_phase(old) != "Bound" {
        return Some(NOT_BOUND);
    }
    let name = volume::claim_class(new).filter(|name| !name.is_empty());
    let unchanged = name.filter(|name| volume::claim_class(old) == Some(name));
    let expands = unchanged.and_then(class).and_then(|class| class.allow_volume_expansion);
    (expands != Some(true)).then_some(NOT_DYNAMIC)
}
