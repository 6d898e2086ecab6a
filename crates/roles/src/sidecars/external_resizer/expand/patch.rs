//! The strategic merge patches of a claim's status, as upstream writes them. Pure.

use bowline_api::expansion::{
    CONTROLLER_RESIZE_ERROR, CONTROLLER_RESIZE_IN_PROGRESS, CONTROLLER_RESIZE_INFEASIBLE,
    FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_PENDING, RESIZING, conditions,
};
use bowline_api::volume::STORAGE;
use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys};
use k8s_openapi::api::core::v1::PersistentVolumeClaimCondition as Condition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::super::conditions::{holds, patch, with_resize};

const RESTART: &str = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";

/// The size to work towards stands in the status before the driver is asked for it.
pub(super) fn marked(claim: &PersistentVolumeClaim, target: &Quantity, fresh: bool, now: &Time) -> Value {
    let resizing = Some(holds(RESIZING, now, None));
    let mut patch = with_conditions(claim, &with_resize(conditions(claim), resizing, !fresh));
    patch["status"]["allocatedResources"] = json!({STORAGE: target});
    if fresh {
        patch["status"]["allocatedResourceStatuses"] = json!({STORAGE: CONTROLLER_RESIZE_IN_PROGRESS});
    }
    without_annotation(claim, &mut patch);
    guarded(claim, patch)
}

/// A final error. It is not guarded by the resourceVersion: the error holds whatever else changed meanwhile.
pub(super) fn refused(claim: &PersistentVolumeClaim, infeasible: bool, message: &str, now: &Time) -> Value {
    let text = format!("failed to expand pvc with {message}");
    let error = Some(holds(CONTROLLER_RESIZE_ERROR, now, Some(text)));
    let mut patch = with_conditions(claim, &with_resize(conditions(claim), error, true));
    if infeasible {
        patch["status"]["allocatedResourceStatuses"] = json!({STORAGE: CONTROLLER_RESIZE_INFEASIBLE});
    }
    // A later claim of the same name has nothing to do with it.
    patch["metadata"] = json!({"uid": claim.metadata.uid});
    patch
}

/// The kubelet's turn.
pub(super) fn node_pending(claim: &PersistentVolumeClaim, now: &Time) -> Value {
    let pending = Some(holds(FILE_SYSTEM_RESIZE_PENDING, now, Some(RESTART.to_owned())));
    let mut patch = with_conditions(claim, &with_resize(conditions(claim), pending, true));
    patch["status"]["allocatedResourceStatuses"] = json!({STORAGE: NODE_RESIZE_PENDING});
    without_annotation(claim, &mut patch);
    guarded(claim, patch)
}

/// The whole expansion is complete. What was allocated stays: quotas count it.
pub(super) fn done(claim: &PersistentVolumeClaim, size: &Quantity) -> Value {
    let mut patch = with_conditions(claim, &with_resize(conditions(claim), None, false));
    patch["status"]["capacity"] = json!({STORAGE: size});
    let statuses = claim.status.as_ref().and_then(|status| status.allocated_resource_statuses.as_ref());
    let others = statuses.is_some_and(|statuses| statuses.keys().any(|name| name != STORAGE));
    patch["status"]["allocatedResourceStatuses"] = if others { json!({STORAGE: null}) } else { Value::Null };
    patch["metadata"]["annotations"] = json!({keys::NODE_EXPANSION_NOT_REQUIRED: "true"});
    guarded(claim, patch)
}

/// The confirmed size of the volume. The resourceVersion keeps one that was delayed on its way from taking back what a later
/// expansion wrote (RES-1).
pub(super) fn capacity(volume: &PersistentVolume, size: &Quantity) -> Value {
    let metadata = json!({"resourceVersion": volume.metadata.resource_version});
    json!({"metadata": metadata, "spec": {"capacity": {STORAGE: size}}})
}

fn with_conditions(claim: &PersistentVolumeClaim, new: &[Condition]) -> Value {
    let changed = patch(conditions(claim), new);
    let status = if changed.is_empty() { json!({}) } else { json!({"conditions": changed}) };
    json!({"metadata": {}, "status": status})
}

fn without_annotation(claim: &PersistentVolumeClaim, patch: &mut Value) {
    if claim.annotation(keys::NODE_EXPANSION_NOT_REQUIRED).is_some() {
        patch["metadata"]["annotations"] = json!({keys::NODE_EXPANSION_NOT_REQUIRED: null});
    }
}

fn guarded(claim: &PersistentVolumeClaim, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(claim.metadata.resource_version);
    patch
}
