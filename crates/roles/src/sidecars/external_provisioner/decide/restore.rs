//! Whether a volume can be restored from a snapshot.

use bowline_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use bowline_api::volume::requested_bytes;
use bowline_api::{Meta, PersistentVolumeClaim, StorageClass, bytes_of, keys};
use bowline_proto::csi::v1::volume_content_source::{SnapshotSource, Type};

use super::super::model::Claim;

/// All checks in upstream's order.
pub fn content(
    seen: &Claim,
    class: &StorageClass,
    name: &str,
    snapshot: Option<&VolumeSnapshot>,
    content: Option<&VolumeSnapshotContent>,
) -> Result<Type, String> {
    let snapshot = snapshot.ok_or_else(|| {
        format!("error getting snapshot {name} from api server: volumesnapshots.snapshot.storage.k8s.io \"{name}\" not found")
    })?;
    // One that carries our finalizer was there when the restore began.
    if snapshot.deleting() && !snapshot.has_finalizer(keys::RESTORE_PROTECTION) {
        return Err(format!("snapshot {name} is being deleted"));
    }
    let content = bound_content(class, name, snapshot, content)?;
    let status = snapshot.status.as_ref();
    if status.and_then(|status| status.ready_to_use) != Some(true) {
        return Err(format!("snapshot {name} is not Ready"));
    }
    let handle = content.status.as_ref().and_then(|status| status.snapshot_handle.clone());
    let handle = handle.ok_or_else(|| format!("snapshot handle {name} is not available"))?;
    let claim = seen.object.as_ref();
    if let Some(size) = status.and_then(|status| status.restore_size.as_ref()) {
        let least = bytes_of(size).map_err(|error| error.to_string())?;
        let wanted = requested_bytes(claim).map_err(|error| error.to_string())?;
        if wanted < least {
            return Err(format!(
                "requested volume size {wanted} is less than the size {least} for the source snapshot {name}"
            ));
        }
    }
    if seen.settings.prevent_mode_conversion {
        same_mode(claim, content)?;
    }
    Ok(Type::Snapshot(SnapshotSource { snapshot_id: handle }))
}

/// The content that this snapshot, and no other, has; of the driver that is to restore it.
fn bound_content<'a>(
    class: &StorageClass,
    name: &str,
    snapshot: &VolumeSnapshot,
    content: Option<&'a VolumeSnapshotContent>,
) -> Result<&'a VolumeSnapshotContent, String> {
    let bound = snapshot.status.as_ref().and_then(|s| s.bound_volume_snapshot_content_name.as_ref());
    let bound = bound.ok_or_else(|| format!("snapshot {name} not bound"))?;
    let content =
        content.ok_or_else(|| format!("error getting snapshotcontent {bound} for snapshot {name}"))?;
    let by = &content.spec.volume_snapshot_ref;
    let same = by.uid.as_deref() == Some(snapshot.uid())
        && by.namespace.as_deref() == Some(snapshot.namespace())
        && by.name.as_deref() == Some(snapshot.name());
    if !same {
        return Err(format!("snapshotcontent {bound} for snapshot {name} is bound to a different snapshot"));
    }
    if content.spec.driver != class.provisioner {
        return Err(format!(
            "snapshotcontent {bound} for snapshot {name} is not handled by CSI driver of StorageClass {}",
            class.name()
        ));
    }
    Ok(content)
}

/// A block volume's bytes may be no filesystem, and a filesystem may have been made to attack the kernel: who may change the
/// mode says so on the content.
fn same_mode(claim: &PersistentVolumeClaim, content: &VolumeSnapshotContent) -> Result<(), String> {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref());
    let (Some(was), Some(wanted)) = (&content.spec.source_volume_mode, wanted) else { return Ok(()) };
    if was == wanted {
        return Ok(());
    }
    let key = keys::SNAPSHOT_ALLOW_MODE_CHANGE;
    let why = match content.annotation(key) {
        Some("1" | "t" | "T" | "TRUE" | "true" | "True") => return Ok(()),
        None => format!("{key} annotation is not present on snapshotcontent {}", content.name()),
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => {
            format!("{key} is set to false on snapshotcontent {}", content.name())
        }
        Some(other) => {
            format!("failed to convert {key} annotation value to boolean with error: `{other}` is none")
        }
    };
    Err(format!(
        "requested volume {} modifies the mode of the source volume but does not have permission to do so. {why}",
        claim.key()
    ))
}
