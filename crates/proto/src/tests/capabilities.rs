//! Enum values: every name has its number, and nothing beyond CSI 1.13 is known.

use crate::csi::v1::*;

/// Names in wire order, starting at value 1.
macro_rules! values {
    ($enum:path: $($name:literal)+) => { values!($enum, "UNKNOWN": $($name)+) };
    ($enum:path, $unknown:literal: $($name:literal)+) => {{
        type E = $enum;
        let mut number = 0;
        assert_eq!(E::try_from(0).map(|value| value.as_str_name()), Ok($unknown));
        $(
            number += 1;
            assert_eq!(E::try_from(number).map(|value| value.as_str_name()), Ok($name));
        )+
        assert!(E::try_from(number + 1).is_err(), "{} has more values", stringify!($enum));
    }};
}

#[test]
fn plugin_capabilities_keep_their_numbers() {
    values!(plugin_capability::service::Type:
        "CONTROLLER_SERVICE" "VOLUME_ACCESSIBILITY_CONSTRAINTS" "GROUP_CONTROLLER_SERVICE"
        "SNAPSHOT_METADATA_SERVICE" "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS");
    values!(plugin_capability::volume_expansion::Type: "ONLINE" "OFFLINE");
}

#[test]
fn rpc_capabilities_keep_their_numbers() {
    values!(controller_service_capability::rpc::Type:
        "CREATE_DELETE_VOLUME" "PUBLISH_UNPUBLISH_VOLUME" "LIST_VOLUMES" "GET_CAPACITY"
        "CREATE_DELETE_SNAPSHOT" "LIST_SNAPSHOTS" "CLONE_VOLUME" "PUBLISH_READONLY" "EXPAND_VOLUME"
        "LIST_VOLUMES_PUBLISHED_NODES" "VOLUME_CONDITION" "GET_VOLUME" "SINGLE_NODE_MULTI_WRITER"
        "MODIFY_VOLUME" "GET_SNAPSHOT" "GET_VOLUME_HEALTH" "LIST_VOLUME_HEALTH");
    values!(group_controller_service_capability::rpc::Type: "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT");
    values!(node_service_capability::rpc::Type:
        "STAGE_UNSTAGE_VOLUME" "GET_VOLUME_STATS" "EXPAND_VOLUME" "VOLUME_CONDITION"
        "SINGLE_NODE_MULTI_WRITER" "VOLUME_MOUNT_GROUP" "GET_VOLUME_HEALTH" "GET_STORAGE_HEALTH");
}

#[test]
fn other_enums_keep_their_numbers() {
    values!(volume_capability::access_mode::Mode:
        "SINGLE_NODE_WRITER" "SINGLE_NODE_READER_ONLY" "MULTI_NODE_READER_ONLY" "MULTI_NODE_SINGLE_WRITER"
        "MULTI_NODE_MULTI_WRITER" "SINGLE_NODE_SINGLE_WRITER" "SINGLE_NODE_MULTI_WRITER");
    values!(VolumeHealthErrorType, "UNKNOWN_VOLUME_HEALTH_TYPE": "DEGRADED" "INACCESSIBLE" "DATA_LOSS");
    values!(StorageHealthErrorType, "UNKNOWN_STORAGE_HEALTH_ERROR_TYPE":
        "STORAGE_DEGRADED" "STORAGE_UNREACHABLE");
    values!(volume_usage::Unit: "BYTES" "INODES");
    values!(BlockMetadataType: "FIXED_LENGTH" "VARIABLE_LENGTH");
}
