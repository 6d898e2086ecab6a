//! Kubernetes objects as this project reads and writes them: well-known keys, quantities, names, readers, builders.
//!
//! No I/O, no async, no clock: everything here is a value or a function of values.

pub mod build;
pub mod downward;
pub mod expansion;
pub mod keys;
pub mod meta;
pub mod name;
pub mod node;
pub mod pod;
pub mod quantity;
pub mod selector;
pub mod snapshot;
pub mod span;
pub mod volume;

pub use meta::{Meta, ObjectKey};
pub use quantity::{bytes_of, quantity_of};

pub use k8s_openapi::api::coordination::v1::Lease;
pub use k8s_openapi::api::core::v1::{
    ConfigMap, Container, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret,
    ServiceAccount,
};
pub use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
pub use snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotClass, VolumeSnapshotContent,
};
