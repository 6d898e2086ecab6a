//! How a claim says where its expansion and the change of its attributes class stand.

use k8s_openapi::api::core::v1::{
    ModifyVolumeStatus, PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::volume::STORAGE;

/// Values of `status.allocatedResourceStatuses.storage`.
pub const CONTROLLER_RESIZE_IN_PROGRESS: &str = "ControllerResizeInProgress";
pub const CONTROLLER_RESIZE_INFEASIBLE: &str = "ControllerResizeInfeasible";
pub const NODE_RESIZE_PENDING: &str = "NodeResizePending";
pub const NODE_RESIZE_IN_PROGRESS: &str = "NodeResizeInProgress";
pub const NODE_RESIZE_INFEASIBLE: &str = "NodeResizeInfeasible";

/// Conditions of an expansion.
pub const RESIZING: &str = "Resizing";
pub const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
pub const CONTROLLER_RESIZE_ERROR: &str = "ControllerResizeError";
pub const NODE_RESIZE_ERROR: &str = "NodeResizeError";
/// All of them: other conditions belong to other controllers.
pub const RESIZE_CONDITIONS: [&str; 4] =
    [RESIZING, FILE_SYSTEM_RESIZE_PENDING, CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR];

/// Conditions of a change of the attributes class.
pub const MODIFYING_VOLUME: &str = "ModifyingVolume";
pub const MODIFY_VOLUME_ERROR: &str = "ModifyVolumeError";

/// Values of `status.modifyVolumeStatus.status`.
pub const MODIFY_PENDING: &str = "Pending";
pub const MODIFY_IN_PROGRESS: &str = "InProgress";
pub const MODIFY_INFEASIBLE: &str = "Infeasible";

fn status(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimStatus> {
    claim.status.as_ref()
}

/// The size that the claim has now.
pub fn claim_capacity(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    status(claim)?.capacity.as_ref()?.get(STORAGE)
}

/// The size that an expansion works towards, or the last one worked towards.
pub fn allocated(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    status(claim)?.allocated_resources.as_ref()?.get(STORAGE)
}

/// Where the expansion stands; empty if there is none.
pub fn resize_status(claim: &PersistentVolumeClaim) -> &str {
    let statuses = status(claim).and_then(|status| status.allocated_resource_statuses.as_ref());
    statuses.and_then(|statuses| statuses.get(STORAGE)).map(String::as_str).unwrap_or_default()
}

pub fn conditions(claim: &PersistentVolumeClaim) -> &[PersistentVolumeClaimCondition] {
    status(claim).and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Whether a condition is there and true.
pub fn condition_holds(claim: &PersistentVolumeClaim, type_: &str) -> bool {
    conditions(claim).iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The attributes class that the volume has; empty and unset are the same.
pub fn current_attributes_class(claim: &PersistentVolumeClaim) -> &str {
    let current = status(claim).and_then(|status| status.current_volume_attributes_class_name.as_deref());
    current.unwrap_or_default()
}

/// Where a change of the attributes class stands.
pub fn modify_status(claim: &PersistentVolumeClaim) -> Option<&ModifyVolumeStatus> {
    status(claim)?.modify_volume_status.as_ref()
}

/// The attributes class that a change works towards; empty if there is none.
pub fn modify_target(claim: &PersistentVolumeClaim) -> &str {
    let target =
        modify_status(claim).and_then(|status| status.target_volume_attributes_class_name.as_deref());
    target.unwrap_or_default()
}
