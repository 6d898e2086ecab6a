//! The strategic merge patches of a claim's status, as upstream writes them. Pure.

use bowline_api::expansion::{
    MODIFY_IN_PROGRESS, MODIFY_INFEASIBLE, MODIFY_PENDING, MODIFY_VOLUME_ERROR, MODIFYING_VOLUME, conditions,
    modify_target,
};
use bowline_api::{PersistentVolume, PersistentVolumeClaim, volume};
use bowline_machinery::metrics::grpc_code;
use k8s_openapi::api::core::v1::PersistentVolumeClaimCondition as Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tonic::Code;

use super::super::conditions::{holds, patch, with_modify, without};
use super::model::Failure;

/// The class is not there: what was worked towards, and the conditions about it, stay.
pub(super) fn pending(claim: &PersistentVolumeClaim) -> Value {
    let status = json!({"modifyVolumeStatus": {"status": MODIFY_PENDING}});
    json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status})
}

pub(super) fn in_progress(claim: &PersistentVolumeClaim, now: &Time) -> Value {
    let target = volume::claim_attributes_class(claim);
    let text = format!("Modifying volume to \"{target}\" is in progress.");
    let mut patch = with_conditions(claim, vec![holds(MODIFYING_VOLUME, now, Some(text))], now);
    patch["status"]["modifyVolumeStatus"] =
        json!({"status": MODIFY_IN_PROGRESS, "targetVolumeAttributesClassName": target});
    patch
}

pub(super) fn failed(claim: &PersistentVolumeClaim, failure: &Failure, now: &Time) -> Value {
    let target = modify_target(claim);
    let text = if failure.last {
        format!("Modifying volume to \"{target}\" failed. Waiting for retry.")
    } else {
        format!("Modifying volume to \"{target}\" is still in progress.")
    };
    let modifying = holds(MODIFYING_VOLUME, now, Some(text));
    let error = Condition {
        reason: Some(grpc_code(Code::from(failure.code)).to_owned()),
        ..holds(MODIFY_VOLUME_ERROR, now, Some(description(&failure.message).to_owned()))
    };
    let mut patch = with_conditions(claim, vec![modifying, error], now);
    let status = if failure.infeasible { MODIFY_INFEASIBLE } else { MODIFY_IN_PROGRESS };
    patch["status"]["modifyVolumeStatus"] = json!({"status": status});
    patch
}

/// Complete. Like upstream's it is not guarded by the resourceVersion: the volume has this class, whatever else changed.
pub(super) fn done(claim: &PersistentVolumeClaim, target: &str) -> Value {
    let left = without(conditions(claim), &[MODIFYING_VOLUME, MODIFY_VOLUME_ERROR]);
    let mut status = json!({"modifyVolumeStatus": null, "currentVolumeAttributesClassName": target});
    set_conditions(claim, &left, &mut status);
    json!({"metadata": {"uid": claim.metadata.uid}, "status": status})
}

/// The claim names no class any more, and nothing is under way.
pub(super) fn canceled(claim: &PersistentVolumeClaim) -> Value {
    let mut status = json!({});
    set_conditions(claim, &without(conditions(claim), &[MODIFYING_VOLUME]), &mut status);
    json!({"metadata": {"uid": claim.metadata.uid}, "status": status})
}

/// The resourceVersion keeps one that was delayed on its way from naming an older class.
pub(super) fn class(volume: &PersistentVolume, target: &str) -> Value {
    let metadata = json!({"resourceVersion": volume.metadata.resource_version});
    json!({"metadata": metadata, "spec": {"volumeAttributesClassName": target}})
}

fn with_conditions(claim: &PersistentVolumeClaim, new: Vec<Condition>, now: &Time) -> Value {
    let mut status = json!({});
    set_conditions(claim, &with_modify(conditions(claim), new, now), &mut status);
    json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status})
}

fn set_conditions(claim: &PersistentVolumeClaim, new: &[Condition], status: &mut Value) {
    let changed = patch(conditions(claim), new);
    if !changed.is_empty() {
        status["conditions"] = json!(changed);
    }
}

/// The driver's own words, without the code before them.
fn description(message: &str) -> &str {
    message.split_once(" desc = ").map_or(message, |(_, text)| text)
}
