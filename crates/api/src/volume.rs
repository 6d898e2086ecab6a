//! Readers of claims, volumes, classes and attachments.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::keys;
use crate::meta::Meta;
use crate::quantity::{BadQuantity, bytes_of};

pub const FILESYSTEM: &str = "Filesystem";
pub const BLOCK: &str = "Block";
pub const READ_WRITE_ONCE: &str = "ReadWriteOnce";
pub const READ_ONLY_MANY: &str = "ReadOnlyMany";
pub const READ_WRITE_MANY: &str = "ReadWriteMany";
pub const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod";
pub const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";
/// Phases of volumes and claims.
pub const PENDING: &str = "Pending";
pub const AVAILABLE: &str = "Available";
pub const BOUND: &str = "Bound";
pub const RELEASED: &str = "Released";
pub const FAILED: &str = "Failed";
pub const LOST: &str = "Lost";
/// Reclaim policies.
pub const RETAIN: &str = "Retain";
pub const DELETE: &str = "Delete";
pub const RECYCLE: &str = "Recycle";
/// The only resource that claims and volumes have.
pub const STORAGE: &str = "storage";

/// Class of a claim. `None`: not said (gets the default); `Some("")`: none on purpose.
pub fn claim_class(claim: &PersistentVolumeClaim) -> Option<&str> {
    let field = claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref());
    claim.annotation(keys::STORAGE_CLASS_BETA).or(field)
}

pub fn volume_class(volume: &PersistentVolume) -> &str {
    let field = volume.spec.as_ref().and_then(|s| s.storage_class_name.as_deref());
    volume.annotation(keys::STORAGE_CLASS_BETA).or(field).unwrap_or_default()
}

pub fn claim_mode(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(FILESYSTEM)
}

pub fn volume_mode(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(FILESYSTEM)
}

pub fn claim_access_modes(claim: &PersistentVolumeClaim) -> &[String] {
    claim.spec.as_ref().and_then(|s| s.access_modes.as_deref()).unwrap_or_default()
}

pub fn volume_access_modes(volume: &PersistentVolume) -> &[String] {
    volume.spec.as_ref().and_then(|s| s.access_modes.as_deref()).unwrap_or_default()
}

/// VolumeAttributesClass of a claim; empty and unset are the same.
pub fn claim_attributes_class(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

pub fn volume_attributes_class(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// What happens to a volume when its claim is gone; the API server fills in `Retain`.
pub fn reclaim_policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.as_deref()).unwrap_or(RETAIN)
}

/// The amount that a claim asks for, if it says one.
pub fn requested(spec: &PersistentVolumeClaimSpec) -> Option<&Quantity> {
    spec.resources.as_ref()?.requests.as_ref()?.get(STORAGE)
}

/// Bytes that a claim asks for; 0 when it says nothing.
pub fn requested_bytes(claim: &PersistentVolumeClaim) -> Result<i64, BadQuantity> {
    claim.spec.as_ref().and_then(requested).map_or(Ok(0), bytes_of)
}

pub fn capacity_bytes(volume: &PersistentVolume) -> Result<i64, BadQuantity> {
    let capacity = volume.spec.as_ref().and_then(|s| s.capacity.as_ref());
    capacity.and_then(|c| c.get(STORAGE)).map_or(Ok(0), bytes_of)
}

/// Bytes that the status of a claim promises; 0 when it says nothing.
pub fn promised_bytes(claim: &PersistentVolumeClaim) -> i64 {
    let capacity = claim.status.as_ref().and_then(|s| s.capacity.as_ref()).and_then(|c| c.get(STORAGE));
    capacity.and_then(|capacity| bytes_of(capacity).ok()).unwrap_or_default()
}

/// Name of the volume that a claim names; empty when none.
pub fn claim_volume(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default()
}

pub fn claim_phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

pub fn volume_phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

pub fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Fully bound for the scheduler: volume named and the link complete.
pub fn bound(claim: &PersistentVolumeClaim) -> bool {
    !claim_volume(claim).is_empty() && claim.annotation(keys::BIND_COMPLETED).is_some()
}

/// Whether a volume's claimRef names this claim; an empty UID is a reservation by name.
pub fn refers_to(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    let uid = reference.uid.as_deref().unwrap_or_default();
    reference.name.as_deref() == Some(claim.name())
        && reference.namespace.as_deref() == Some(claim.namespace())
        && (uid.is_empty() || uid == claim.uid())
}

pub fn csi(volume: &PersistentVolume) -> Option<&CSIPersistentVolumeSource> {
    volume.spec.as_ref()?.csi.as_ref()
}

/// The name under which kubelet and attach/detach controller know this volume.
pub fn unique_name(volume: &PersistentVolume) -> Option<String> {
    csi(volume).map(|source| crate::name::unique_volume(&source.driver, &source.volume_handle))
}

/// Whether the volume may be attached to several nodes at once (reference kube-core.md 3.6).
pub fn multi_attach(volume: &PersistentVolume) -> bool {
    let modes = volume_access_modes(volume);
    modes.is_empty() || modes.iter().any(|m| m == READ_WRITE_MANY || m == READ_ONLY_MANY)
}

pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some(WAIT_FOR_FIRST_CONSUMER)
}

pub fn is_default_class(class: &StorageClass) -> bool {
    let marked = |key| class.annotation(key) == Some("true");
    marked(keys::DEFAULT_CLASS) || marked(keys::DEFAULT_CLASS_BETA)
}

/// The class for claims that name none: the newest marked one, ties by name.
pub fn default_class<'a>(classes: impl Iterator<Item = &'a StorageClass>) -> Option<&'a StorageClass> {
    let newest_first = |class: &&StorageClass| {
        let created = class.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (std::cmp::Reverse(created), class.name().to_owned())
    };
    classes.filter(|class| is_default_class(class)).min_by_key(newest_first)
}

/// A missing CSIDriver object means that attaching is required.
pub fn attach_required(driver: Option<&CSIDriver>) -> bool {
    driver.is_none_or(|d| d.spec.attach_required.unwrap_or(true))
}

pub fn attached(attachment: &VolumeAttachment) -> bool {
    attachment.status.as_ref().is_some_and(|s| s.attached)
}

/// Name of the volume that an attachment is for; `None` for inline ones.
pub fn attachment_volume(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}
