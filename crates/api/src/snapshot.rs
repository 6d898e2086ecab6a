//! Snapshots of volumes: the kinds of `snapshot.storage.k8s.io/v1`, and below `group` those of groups of volumes.
//!
//! They are custom resources, so that k8s-openapi does not know them. The fields are those of external-snapshotter's
//! definitions; a test compares the definitions that `bowline up` installs with upstream's.

mod group;
mod kind;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

pub use group::{
    GROUP as GROUP_SNAPSHOT_GROUP, GroupSnapshotHandles, VolumeGroupSnapshot, VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent, VolumeGroupSnapshotContentSource, VolumeGroupSnapshotContentSpec,
    VolumeGroupSnapshotContentStatus, VolumeGroupSnapshotSource, VolumeGroupSnapshotSpec,
    VolumeGroupSnapshotStatus, VolumeSnapshotInfo,
};
use kind::kind;

/// The API group of snapshots of single volumes.
pub const GROUP: &str = "snapshot.storage.k8s.io";
/// The version that the controllers use.
pub const API_VERSION: &str = "snapshot.storage.k8s.io/v1";

/// The kind that owns the members of a group.
pub const GROUP_KIND: &str = "VolumeGroupSnapshot";

/// `deletionPolicy`: the backend's snapshot goes with its VolumeSnapshot.
pub const DELETE: &str = "Delete";
/// `deletionPolicy`: the content and the backend's snapshot stay.
pub const RETAIN: &str = "Retain";

/// A request for a snapshot of a claim, or for a snapshot that exists already.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct VolumeSnapshot {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: VolumeSnapshotSpec,
    pub status: Option<VolumeSnapshotStatus>,
}
kind!(VolumeSnapshot, GROUP, API_VERSION, "v1", "volumesnapshots", Namespace, [spec], [status]);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    #[serde(default)]
    pub source: VolumeSnapshotSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// Exactly one of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// Why the last attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeSnapshotError {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The backend's snapshot, or the order to make it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct VolumeSnapshotContent {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: VolumeSnapshotContentSpec,
    pub status: Option<VolumeSnapshotContentStatus>,
}
kind!(VolumeSnapshotContent, GROUP, API_VERSION, "v1", "volumesnapshotcontents", Cluster, [spec], [status]);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSpec {
    #[serde(default)]
    pub volume_snapshot_ref: ObjectReference,
    #[serde(default)]
    pub deletion_policy: String,
    #[serde(default)]
    pub driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    #[serde(default)]
    pub source: VolumeSnapshotContentSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// Exactly one of both: the volume to take a snapshot of, or the snapshot that exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// Nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}

/// How snapshots of a driver are made and what becomes of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub driver: String,
    pub parameters: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub deletion_policy: String,
}
kind!(
    VolumeSnapshotClass,
    GROUP,
    API_VERSION,
    "v1",
    "volumesnapshotclasses",
    Cluster,
    [driver, deletion_policy],
    [parameters]
);

#[cfg(test)]
mod tests;
