//! kubernetes-csi/external-snapshotter (snapshot-controller): one per cluster; gives each VolumeSnapshot its content.
//!
//! csi-snapshotter beside each driver takes the snapshots; both speak through the content alone.
//!
//! | watches | writes |
//! |---|---|
//! | VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotClass, PersistentVolumeClaim, PersistentVolume; Node in distributed mode | VolumeSnapshot (finalizers, class, status), VolumeSnapshotContent (create, bind, finalizer, annotation, delete), PersistentVolumeClaim (finalizer), events |
//!
//! Promise SNAP-1, this role's part: a content has a name that is derived from its snapshot's UID, so that a repeat finds
//! what an earlier try made, and a snapshot keeps its finalizer until the content was told to go. A create whose answer
//! was lost is repeated before a deleted snapshot lets go of its content.
//!
//! Differences from upstream are in docs/differences.md.

mod act;
mod decide;
mod model;
mod observe;
mod operations;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Content, Key, Observed, Problem, Settings, Snapshot, Why};
pub use role::{Flags, SnapshotController};
