//! What controllers may report of a claim. Phases may follow each other in any order.

use bowline_api::keys;
use bowline_api::volume::STORAGE;
use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;

use crate::field::Invalid;
use crate::kinds::check::{self, names, quantities};

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

pub fn errors(status: &PersistentVolumeClaimStatus) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (name, amount) in status.capacity.iter().flatten() {
        errors.extend(quantities::stored(&format!("status.capacity[{name}]"), amount));
    }
    let at = "status.allocatedResourceStatuses";
    for (name, state) in status.allocated_resource_statuses.iter().flatten() {
        errors.extend(name_errors(at, name));
        if !RESIZE_STATES.contains(&state.as_str()) {
            // Upstream shows the resource here, not its state.
            errors.push(Invalid::not_supported(at, name.as_str(), &RESIZE_STATES));
        }
    }
    for (name, amount) in status.allocated_resources.iter().flatten() {
        let wrong = name_errors("status.allocatedResources", name);
        let amount = quantities::stored(&format!("status.allocatedResources[{name}]"), amount);
        if wrong.is_empty() { errors.extend(amount) } else { errors.extend(wrong) }
    }
    errors
}

/// A qualified name; without a foreign prefix it can only be storage.
fn name_errors(at: &str, name: &str) -> Vec<Invalid> {
    let errors = names::qualified(at, name);
    let native = !name.contains('/') || name.contains(keys::NATIVE_PREFIX);
    if errors.is_empty() && native {
        return check::one_of(at, name, &[STORAGE]).into_iter().collect();
    }
    errors
}
