//! `Debug` for messages that may carry secrets: the listed fields are printed, the rest is `..`.
//!
//! `build.rs` removes the derived `Debug` from every message with a secrets, context or parameter map,
//! with mount flags or with a value of etcd, so a message missing here cannot be formatted at all.

use std::fmt;

use crate::csi::v1 as csi;
use crate::etcd;

macro_rules! print_only {
    ($($message:path { $($field:ident),* })*) => {$(
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($message);
                f.debug_struct(name.rsplit("::").next().unwrap_or(name).trim())
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    )*};
}

print_only! {
    csi::CreateVolumeRequest { name, capacity_range }
    csi::DeleteVolumeRequest { volume_id }
    csi::ControllerPublishVolumeRequest { volume_id, node_id, readonly }
    csi::ControllerPublishVolumeResponse {}
    csi::ControllerUnpublishVolumeRequest { volume_id, node_id }
    csi::ValidateVolumeCapabilitiesRequest { volume_id }
    csi::validate_volume_capabilities_response::Confirmed {}
    csi::ControllerModifyVolumeRequest { volume_id }
    csi::ControllerExpandVolumeRequest { volume_id, capacity_range }
    csi::ControllerListVolumeHealthRequest { max_entries }
    csi::ControllerGetVolumeHealthRequest { volume_id }
    csi::NodeGetStorageHealthRequest {}
    csi::GetCapacityRequest { accessible_topology }
    csi::Volume { volume_id, capacity_bytes }
    csi::volume_capability::MountVolume { fs_type }
    csi::CreateSnapshotRequest { source_volume_id, name }
    csi::DeleteSnapshotRequest { snapshot_id }
    csi::ListSnapshotsRequest { source_volume_id, snapshot_id, max_entries }
    csi::GetSnapshotRequest { snapshot_id }
    csi::CreateVolumeGroupSnapshotRequest { name, source_volume_ids }
    csi::DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids }
    csi::GetVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids }
    csi::GetMetadataAllocatedRequest { snapshot_id, starting_offset }
    csi::GetMetadataDeltaRequest { base_snapshot_id, target_snapshot_id, starting_offset }
    csi::NodeStageVolumeRequest { volume_id, staging_target_path }
    csi::NodePublishVolumeRequest { volume_id, target_path, readonly }
    csi::NodeExpandVolumeRequest { volume_id, volume_path, capacity_range }
    etcd::KeyValue { key, create_revision, mod_revision, version, lease }
    etcd::PutRequest { key, lease }
}
