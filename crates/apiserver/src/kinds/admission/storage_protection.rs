//! StorageObjectInUseProtection: claims, volumes and attributes classes stay while they are used.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

pub fn protect_claim(claim: &mut PersistentVolumeClaim) {
    claim.add_finalizer(keys::PVC_PROTECTION);
}

pub fn protect_volume(volume: &mut PersistentVolume) {
    volume.add_finalizer(keys::PV_PROTECTION);
}

pub fn protect_attributes_class(class: &mut VolumeAttributesClass) {
    class.add_finalizer(keys::VAC_PROTECTION);
}
