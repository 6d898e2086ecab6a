//! Snapshots of several volumes at one moment: `groupsnapshot.storage.k8s.io`.
//!
//! The definitions of external-snapshotter 8.6 serve v1, v1beta2 (stored) and v1beta1 (deprecated); controllers use v1.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::VolumeSnapshotError;
use super::kind::kind;

/// The API group of snapshots of groups.
pub const GROUP: &str = "groupsnapshot.storage.k8s.io";
const API_VERSION: &str = "groupsnapshot.storage.k8s.io/v1";

/// A request for snapshots of all claims that a selector matches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct VolumeGroupSnapshot {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: VolumeGroupSnapshotSpec,
    pub status: Option<VolumeGroupSnapshotStatus>,
}
kind!(VolumeGroupSnapshot, GROUP, API_VERSION, "v1", "volumegroupsnapshots", Namespace, [spec], [status]);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotSpec {
    #[serde(default)]
    pub source: VolumeGroupSnapshotSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_name: Option<String>,
}

/// Exactly one of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_content_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_volume_group_snapshot_content_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
}

/// The backend's group of snapshots, or the order to make it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct VolumeGroupSnapshotContent {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: VolumeGroupSnapshotContentSpec,
    pub status: Option<VolumeGroupSnapshotContentStatus>,
}
kind!(
    VolumeGroupSnapshotContent,
    GROUP,
    API_VERSION,
    "v1",
    "volumegroupsnapshotcontents",
    Cluster,
    [spec],
    [status]
);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotContentSpec {
    #[serde(default)]
    pub volume_group_snapshot_ref: ObjectReference,
    #[serde(default)]
    pub deletion_policy: String,
    #[serde(default)]
    pub driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_name: Option<String>,
    #[serde(default)]
    pub source: VolumeGroupSnapshotContentSource,
}

/// Exactly one of both: the volumes, or the snapshots that exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotContentSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_handles: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_snapshot_handles: Option<GroupSnapshotHandles>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSnapshotHandles {
    #[serde(default)]
    pub volume_group_snapshot_handle: String,
    #[serde(default)]
    pub volume_snapshot_handles: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotContentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_info_list: Option<Vec<VolumeSnapshotInfo>>,
}

/// One member of a group as the driver reported it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotInfo {
    #[serde(default)]
    pub volume_handle: String,
    #[serde(default)]
    pub snapshot_handle: String,
    /// Nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
}

/// How groups of snapshots of a driver are made and what becomes of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotClass {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub driver: String,
    pub parameters: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub deletion_policy: String,
}
kind!(
    VolumeGroupSnapshotClass,
    GROUP,
    API_VERSION,
    "v1",
    "volumegroupsnapshotclasses",
    Cluster,
    [driver, deletion_policy],
    [parameters]
);
