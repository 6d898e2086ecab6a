//! PersistentVolumeClaim: a wish for storage.
//!
//! `spec`: what a claim may ask for; `data_source`: what it may start from; `update`: what may not change;
//! `status`: what controllers may report.

mod data_source;
pub mod spec;
mod status;
mod update;

use bowline_api::{Meta, PersistentVolumeClaim, volume};
use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;
use serde_json::Value;

use super::check::access_modes;
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const PENDING: &str = "Pending";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Status", "Phase of the claim."),
    column::text("Volume", "The volume that the claim has."),
    column::text("Capacity", "Size of the volume."),
    column::text("Access Modes", "Ways in which the volume can be mounted."),
    column::text("StorageClass", "Class of the claim."),
    column::text("VolumeAttributesClass", "Attributes class of the claim."),
    column::AGE,
    column::wide(column::text("VolumeMode", "Filesystem or raw block device.")),
];

pub struct PersistentVolumeClaimRules;

impl Rules for PersistentVolumeClaimRules {
    type Object = PersistentVolumeClaim;
    const NAMES: Names = Names {
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short: &["pvc"],
        categories: &[],
    };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    const FIELD_LABELS: &'static [&'static str] = &["name"];

    fn default_fields(claim: &mut PersistentVolumeClaim) {
        let status = claim.status.get_or_insert_default();
        if status.phase.as_deref().unwrap_or_default().is_empty() {
            status.phase = Some(PENDING.into());
        }
        spec::default_fields(claim.spec.get_or_insert_default());
    }

    fn prepare_create(claim: &mut PersistentVolumeClaim, _now: jiff::Timestamp) {
        let phase = Some(PENDING.into());
        claim.status = Some(PersistentVolumeClaimStatus { phase, ..Default::default() });
        data_source::settle(claim.spec.get_or_insert_default(), None);
    }

    fn prepare_update(new: &mut PersistentVolumeClaim, old: &PersistentVolumeClaim) {
        new.status = old.status.clone();
        data_source::settle(new.spec.get_or_insert_default(), old.spec.as_ref());
    }

    fn prepare_status(new: &mut PersistentVolumeClaim, old: &PersistentVolumeClaim, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(claim: &PersistentVolumeClaim) -> Vec<Invalid> {
        spec::errors("spec", &claim.spec.clone().unwrap_or_default())
    }

    fn validate_update(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> Vec<Invalid> {
        update::errors(new, old)
    }

    fn validate_status(new: &PersistentVolumeClaim, _old: &PersistentVolumeClaim) -> Vec<Invalid> {
        status::errors(&new.status.clone().unwrap_or_default())
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(claim: &PersistentVolumeClaim, now: jiff::Timestamp) -> Vec<Value> {
        let spec = claim.spec.clone().unwrap_or_default();
        let status = claim.status.clone().unwrap_or_default();
        let phase = if claim.deleting() { "Terminating" } else { volume::claim_phase(claim) };
        // What the claim got, not what it asked for, and nothing before there is a volume.
        let capacity = status.capacity.as_ref().and_then(|c| c.get(volume::STORAGE));
        let (capacity, modes) = match volume::claim_volume(claim) {
            "" => (String::new(), String::new()),
            _ => (
                capacity.map_or("0".into(), |amount| amount.0.clone()),
                access_modes::short(status.access_modes.as_deref().unwrap_or_default()),
            ),
        };
        let unset = |text: Option<String>| Value::from(text.unwrap_or_else(|| "<unset>".into()));
        vec![
            claim.name().into(),
            phase.into(),
            volume::claim_volume(claim).into(),
            capacity.into(),
            modes.into(),
            volume::claim_class(claim).unwrap_or_default().into(),
            unset(spec.volume_attributes_class_name),
            age::age(&claim.metadata, now).into(),
            unset(spec.volume_mode),
        ]
    }

    fn field_labels(claim: &PersistentVolumeClaim) -> Vec<(&'static str, String)> {
        vec![("name", claim.name().to_owned())]
    }
}
