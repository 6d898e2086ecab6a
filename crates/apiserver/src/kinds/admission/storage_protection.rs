//! StorageObjectInUseProtection: claims and volumes stay while they are used.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys};

pub fn protect_claim(claim: &mut PersistentVolumeClaim) {
    claim.add_finalizer(keys::PVC_PROTECTION);
}

pub fn protect_volume(volume: &mut PersistentVolume) {
    volume.add_finalizer(keys::PV_PROTECTION);
}
