//! DefaultStorageClass: claims that name no class get the default one.

use bowline_api::{Meta, PersistentVolumeClaim, StorageClass, volume};

/// Leaves a claim alone that names a class, even the empty one.
pub fn set_default_class(claim: &mut PersistentVolumeClaim, classes: &[StorageClass]) {
    if volume::claim_class(claim).is_some() {
        return;
    }
    if let Some(class) = volume::default_class(classes.iter()) {
        claim.spec.get_or_insert_default().storage_class_name = Some(class.name().into());
    }
}
