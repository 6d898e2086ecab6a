//! kubernetes-csi/external-snapshotter (csi-snapshotter): takes and deletes the snapshots of one driver.
//!
//! snapshot-controller makes a VolumeSnapshotContent for each VolumeSnapshot; this role carries it out and says in its status
//! what came of it.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | VolumeSnapshotContent, VolumeSnapshotClass | CreateSnapshot, DeleteSnapshot, ListSnapshots | VolumeSnapshotContent (annotation, status, finalizer), events |
//!
//! Promise SNAP-1, this role's part: the snapshot's name is derived from the UID of its VolumeSnapshot, so that every repeat
//! of CreateSnapshot finds what an earlier one made. The annotation `volumesnapshot-being-created` stands before the call is
//! sent and goes after a final answer, and a content that has it is not deleted: a snapshot of which nothing is known
//! cannot be left behind. The finalizer goes only after DeleteSnapshot succeeded, and only contents with the policy Delete,
//! read past the cache, are deleted.
//!
//! Differences from upstream are in docs/differences.md.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Answer, Content, Key, Report, Settings, Why};
pub use role::{Flags, Snapshotter, can_snapshot};
