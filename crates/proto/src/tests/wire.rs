//! Field numbers, read back from encoded messages.

use std::collections::BTreeMap;

use prost::Message;

use crate::csi::v1::{self as csi, *};
use crate::pluginregistration::{PluginInfo, RegistrationStatus};

/// A value that is present on the wire.
trait Sample {
    fn sample() -> Self;
}
impl Sample for String {
    fn sample() -> Self {
        "x".to_owned()
    }
}
impl Sample for i32 {
    fn sample() -> Self {
        1
    }
}
impl Sample for i64 {
    fn sample() -> Self {
        1
    }
}
impl Sample for bool {
    fn sample() -> Self {
        true
    }
}
impl Sample for BTreeMap<String, String> {
    fn sample() -> Self {
        BTreeMap::from([("k".to_owned(), "v".to_owned())])
    }
}
impl<T: Default> Sample for Vec<T> {
    fn sample() -> Self {
        vec![T::default()]
    }
}
impl<T: Default> Sample for Option<T> {
    fn sample() -> Self {
        Some(T::default())
    }
}

/// Number of the first field; all CSI numbers fit in a one byte tag.
fn first_number(message: &impl Message) -> u8 {
    message.encode_to_vec()[0] >> 3
}

/// Sets one field at a time. The pattern has no `..`, so a row must name every field.
macro_rules! numbers {
    ($($message:path { $($field:ident = $number:literal),+ })*) => {$(
        let $message { $($field: _),+ } = <$message>::default();
        $({
            let mut message = <$message>::default();
            message.$field = Sample::sample();
            assert_eq!(first_number(&message), $number, "{}.{}", stringify!($message), stringify!($field));
        })+
    )*};
}

#[test]
#[allow(clippy::field_reassign_with_default)]
fn shared_messages_keep_their_numbers() {
    numbers! {
        Volume { capacity_bytes = 1, volume_id = 2, volume_context = 3, content_source = 4, accessible_topology = 5 }
        volume_capability::MountVolume { fs_type = 1, mount_flags = 2, volume_mount_group = 3 }
        volume_capability::AccessMode { mode = 1 }
        CapacityRange { required_bytes = 1, limit_bytes = 2 }
        volume_content_source::SnapshotSource { snapshot_id = 1 }
        volume_content_source::VolumeSource { volume_id = 1 }
        TopologyRequirement { requisite = 1, preferred = 2 }
        Topology { segments = 1 }
        Snapshot { size_bytes = 1, snapshot_id = 2, source_volume_id = 3, creation_time = 4, ready_to_use = 5,
            group_snapshot_id = 6, accessible_topology = 7 }
        VolumeGroupSnapshot { group_snapshot_id = 1, snapshots = 2, creation_time = 3, ready_to_use = 4 }
        VolumeUsage { available = 1, total = 2, used = 3, unit = 4 }
        VolumeCondition { abnormal = 1, message = 2 }
        VolumeHealth { volume_id = 1, health_statuses = 2 }
        volume_health::VolumeHealthEntry { status = 1, reason = 2, message = 3 }
        BlockMetadata { byte_offset = 1, size_bytes = 2 }
    }
}

#[test]
#[allow(clippy::field_reassign_with_default)]
fn controller_messages_keep_their_numbers() {
    numbers! {
        CreateVolumeRequest { name = 1, capacity_range = 2, volume_capabilities = 3, parameters = 4, secrets = 5,
            volume_content_source = 6, accessibility_requirements = 7, mutable_parameters = 8 }
        CreateVolumeResponse { volume = 1 }
        DeleteVolumeRequest { volume_id = 1, secrets = 2 }
        ControllerPublishVolumeRequest { volume_id = 1, node_id = 2, volume_capability = 3, readonly = 4,
            secrets = 5, volume_context = 6 }
        ControllerPublishVolumeResponse { publish_context = 1 }
        ControllerUnpublishVolumeRequest { volume_id = 1, node_id = 2, secrets = 3 }
        ValidateVolumeCapabilitiesRequest { volume_id = 1, volume_context = 2, volume_capabilities = 3,
            parameters = 4, secrets = 5, mutable_parameters = 6 }
        ValidateVolumeCapabilitiesResponse { confirmed = 1, message = 2 }
        validate_volume_capabilities_response::Confirmed { volume_context = 1, volume_capabilities = 2,
            parameters = 3, mutable_parameters = 4 }
        ListVolumesRequest { max_entries = 1, starting_token = 2 }
        ListVolumesResponse { entries = 1, next_token = 2 }
        list_volumes_response::Entry { volume = 1, status = 2 }
        list_volumes_response::VolumeStatus { published_node_ids = 1, volume_condition = 2 }
        ControllerListVolumeHealthRequest { max_entries = 1, starting_token = 2, secrets = 3 }
        ControllerListVolumeHealthResponse { entries = 1, next_token = 2 }
        ControllerGetVolumeHealthRequest { volume_id = 1, secrets = 2 }
        ControllerGetVolumeHealthResponse { volume_health = 1 }
        ControllerGetVolumeRequest { volume_id = 1 }
        ControllerGetVolumeResponse { volume = 1, status = 2 }
        controller_get_volume_response::VolumeStatus { published_node_ids = 1, volume_condition = 2 }
        ControllerModifyVolumeRequest { volume_id = 1, secrets = 2, mutable_parameters = 3 }
        GetCapacityRequest { volume_capabilities = 1, parameters = 2, accessible_topology = 3 }
        GetCapacityResponse { available_capacity = 1, maximum_volume_size = 2, minimum_volume_size = 3 }
        ControllerExpandVolumeRequest { volume_id = 1, capacity_range = 2, secrets = 3, volume_capability = 4 }
        ControllerExpandVolumeResponse { capacity_bytes = 1, node_expansion_required = 2 }
        CreateSnapshotRequest { source_volume_id = 1, name = 2, secrets = 3, parameters = 4,
            accessibility_requirements = 5 }
        CreateSnapshotResponse { snapshot = 1 }
        DeleteSnapshotRequest { snapshot_id = 1, secrets = 2 }
        ListSnapshotsRequest { max_entries = 1, starting_token = 2, source_volume_id = 3, snapshot_id = 4,
            secrets = 5 }
        ListSnapshotsResponse { entries = 1, next_token = 2 }
        list_snapshots_response::Entry { snapshot = 1 }
        GetSnapshotRequest { snapshot_id = 1, secrets = 2 }
        GetSnapshotResponse { snapshot = 1 }
        CreateVolumeGroupSnapshotRequest { name = 1, source_volume_ids = 2, secrets = 3, parameters = 4 }
        CreateVolumeGroupSnapshotResponse { group_snapshot = 1 }
        DeleteVolumeGroupSnapshotRequest { group_snapshot_id = 1, snapshot_ids = 2, secrets = 3 }
        GetVolumeGroupSnapshotRequest { group_snapshot_id = 1, snapshot_ids = 2, secrets = 3 }
        GetVolumeGroupSnapshotResponse { group_snapshot = 1 }
        GetMetadataAllocatedRequest { snapshot_id = 1, starting_offset = 2, max_results = 3, secrets = 4 }
        GetMetadataAllocatedResponse { block_metadata_type = 1, volume_capacity_bytes = 2, block_metadata = 3 }
        GetMetadataDeltaRequest { base_snapshot_id = 1, target_snapshot_id = 2, starting_offset = 3,
            max_results = 4, secrets = 5 }
        GetMetadataDeltaResponse { block_metadata_type = 1, volume_capacity_bytes = 2, block_metadata = 3 }
    }
}

#[test]
#[allow(clippy::field_reassign_with_default)]
fn node_identity_and_registration_messages_keep_their_numbers() {
    numbers! {
        NodeStageVolumeRequest { volume_id = 1, publish_context = 2, staging_target_path = 3,
            volume_capability = 4, secrets = 5, volume_context = 6 }
        NodeUnstageVolumeRequest { volume_id = 1, staging_target_path = 2 }
        NodePublishVolumeRequest { volume_id = 1, publish_context = 2, staging_target_path = 3, target_path = 4,
            volume_capability = 5, readonly = 6, secrets = 7, volume_context = 8 }
        NodeUnpublishVolumeRequest { volume_id = 1, target_path = 2 }
        NodeGetVolumeStatsRequest { volume_id = 1, volume_path = 2, staging_target_path = 3 }
        NodeGetVolumeStatsResponse { usage = 1, volume_condition = 2 }
        NodeGetVolumeHealthRequest { volume_id = 1, volume_publish_path = 2, staging_target_path = 3 }
        NodeGetVolumeHealthResponse { volume_health = 1 }
        NodeGetStorageHealthRequest { secrets = 1 }
        NodeGetStorageHealthResponse { backend_health = 1 }
        node_get_storage_health_response::StorageBackendHealth { status = 1, reason = 2, message = 3,
            volume_capability = 4 }
        NodeExpandVolumeRequest { volume_id = 1, volume_path = 2, capacity_range = 3, staging_target_path = 4,
            volume_capability = 5, secrets = 6 }
        NodeExpandVolumeResponse { capacity_bytes = 1 }
        NodeGetInfoResponse { node_id = 1, max_volumes_per_node = 2, accessible_topology = 3 }
        NodeGetCapabilitiesResponse { capabilities = 1 }
        ControllerGetCapabilitiesResponse { capabilities = 1 }
        GroupControllerGetCapabilitiesResponse { capabilities = 1 }
        GetPluginInfoResponse { name = 1, vendor_version = 2, manifest = 3 }
        GetPluginCapabilitiesResponse { capabilities = 1 }
        ProbeResponse { ready = 1 }
        PluginInfo { r#type = 1, name = 2, endpoint = 3, supported_versions = 4 }
        RegistrationStatus { plugin_registered = 1, error = 2 }
    }
}

#[test]
fn oneof_members_keep_their_numbers() {
    use csi::{
        plugin_capability as plugin, volume_capability as capability, volume_content_source as source,
    };

    let access = |access_type| VolumeCapability { access_type: Some(access_type), access_mode: None };
    assert_eq!(first_number(&access(capability::AccessType::Block(Default::default()))), 1);
    assert_eq!(first_number(&access(capability::AccessType::Mount(Default::default()))), 2);
    let mode = VolumeCapability { access_type: None, access_mode: Some(Default::default()) };
    assert_eq!(first_number(&mode), 3);

    let content = |source| VolumeContentSource { r#type: Some(source) };
    assert_eq!(first_number(&content(source::Type::Snapshot(Default::default()))), 1);
    assert_eq!(first_number(&content(source::Type::Volume(Default::default()))), 2);

    let can = |capability| PluginCapability { r#type: Some(capability) };
    assert_eq!(first_number(&can(plugin::Type::Service(Default::default()))), 1);
    assert_eq!(first_number(&can(plugin::Type::VolumeExpansion(Default::default()))), 2);

    let rpc = controller_service_capability::Type::Rpc(Default::default());
    assert_eq!(first_number(&ControllerServiceCapability { r#type: Some(rpc) }), 1);
    let rpc = node_service_capability::Type::Rpc(Default::default());
    assert_eq!(first_number(&NodeServiceCapability { r#type: Some(rpc) }), 1);
    let rpc = group_controller_service_capability::Type::Rpc(Default::default());
    assert_eq!(first_number(&GroupControllerServiceCapability { r#type: Some(rpc) }), 1);
}
