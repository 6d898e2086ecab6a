//! PersistentVolume: a piece of storage.
//!
//! `spec`: what a volume may look like; `source`: where its bytes are; `update`: what may not change.

pub mod intree;
pub mod intree_defaults;
pub mod source;
pub mod spec;
mod update;

use bowline_api::{Meta, PersistentVolume, keys, volume};
use k8s_openapi::api::core::v1::PersistentVolumeStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::check::access_modes;
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const PENDING: &str = "Pending";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Capacity", "Size of the volume."),
    column::text("Access Modes", "Ways in which the volume can be mounted."),
    column::text("Reclaim Policy", "What happens to the volume when its claim is gone."),
    column::text("Status", "Phase of the volume."),
    column::text("Claim", "The claim that has the volume."),
    column::text("StorageClass", "Class of the volume."),
    column::text("VolumeAttributesClass", "Attributes class of the volume."),
    column::text("Reason", "Why the volume is in its phase."),
    column::AGE,
    column::wide(column::text("VolumeMode", "Filesystem or raw block device.")),
];

pub struct PersistentVolumeRules;

impl Rules for PersistentVolumeRules {
    type Object = PersistentVolume;
    const NAMES: Names =
        Names { plural: "persistentvolumes", singular: "persistentvolume", short: &["pv"], categories: &[] };
    const NAMESPACED: bool = false;
    const STATUS: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn default_fields(volume: &mut PersistentVolume) {
        let status = volume.status.get_or_insert_default();
        if status.phase.as_deref().unwrap_or_default().is_empty() {
            status.phase = Some(PENDING.into());
        }
        let spec = volume.spec.get_or_insert_default();
        let policy = spec.persistent_volume_reclaim_policy.get_or_insert_default();
        if policy.is_empty() {
            *policy = "Retain".into();
        }
        spec.volume_mode.get_or_insert_with(|| volume::FILESYSTEM.into());
        if let Some(path) = &mut spec.host_path {
            path.type_.get_or_insert_default();
        }
        if let Some(iscsi) = &mut spec.iscsi {
            intree_defaults::iscsi(&mut iscsi.iscsi_interface);
        }
        if let Some(rbd) = &mut spec.rbd {
            intree_defaults::rbd(&mut rbd.pool, &mut rbd.user, &mut rbd.keyring);
        }
        if let Some(scale_io) = &mut spec.scale_io {
            intree_defaults::scale_io(&mut scale_io.storage_mode, &mut scale_io.fs_type);
        }
        if let Some(disk) = &mut spec.azure_disk {
            intree_defaults::azure_disk(disk);
        }
    }

    fn prepare_create(volume: &mut PersistentVolume, now: jiff::Timestamp) {
        volume.status = Some(PersistentVolumeStatus {
            phase: Some(PENDING.into()),
            last_phase_transition_time: Some(Time(now)),
            ..Default::default()
        });
    }

    fn prepare_update(new: &mut PersistentVolume, old: &PersistentVolume) {
        new.status = old.status.clone();
    }

    /// A status keeps the time of its last change of phase, or gets a new one, unless the client says when.
    fn prepare_status(new: &mut PersistentVolume, old: &PersistentVolume, now: jiff::Timestamp) {
        new.spec = old.spec.clone();
        let moved = volume::volume_phase(new) != volume::volume_phase(old);
        let before = old.status.as_ref().and_then(|s| s.last_phase_transition_time.clone());
        let at = &mut new.status.get_or_insert_default().last_phase_transition_time;
        if moved && (at.is_none() || *at == before) {
            *at = Some(Time(now));
        } else if !moved && at.is_none() {
            *at = before;
        }
    }

    fn validate(volume: &PersistentVolume) -> Vec<Invalid> {
        let spec = volume.spec.clone().unwrap_or_default();
        let mut errors = spec::errors(&spec);
        if !source::had_mount_options(&spec) && volume.annotation(keys::MOUNT_OPTIONS_BETA).is_some() {
            let at = format!("metadata.annotations.{}", keys::MOUNT_OPTIONS_BETA);
            errors.push(Invalid::forbidden(at, "may not specify mount options for this volume type"));
        }
        errors
    }

    fn validate_update(new: &PersistentVolume, old: &PersistentVolume) -> Vec<Invalid> {
        update::errors(&new.spec.clone().unwrap_or_default(), &old.spec.clone().unwrap_or_default())
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(volume: &PersistentVolume, now: jiff::Timestamp) -> Vec<Value> {
        let spec = volume.spec.clone().unwrap_or_default();
        let phase = if volume.deleting() { "Terminating" } else { volume::volume_phase(volume) };
        let claim = spec.claim_ref.map(|claim| {
            format!("{}/{}", claim.namespace.unwrap_or_default(), claim.name.unwrap_or_default())
        });
        let reason = volume.status.as_ref().and_then(|s| s.reason.as_deref()).unwrap_or_default();
        let unset = |text: Option<String>| Value::from(text.unwrap_or_else(|| "<unset>".into()));
        vec![
            volume.name().into(),
            spec.capacity.as_ref().and_then(|c| c.get(volume::STORAGE)).map_or("0", |q| &q.0).into(),
            access_modes::short(volume::volume_access_modes(volume)).into(),
            spec.persistent_volume_reclaim_policy.unwrap_or_default().into(),
            phase.into(),
            claim.unwrap_or_default().into(),
            volume::volume_class(volume).into(),
            unset(spec.volume_attributes_class_name),
            reason.into(),
            age::age(&volume.metadata, now).into(),
            unset(spec.volume_mode),
        ]
    }
}
