//! kubernetes-csi/external-provisioner (csi-provisioner): makes and deletes the volumes of one driver.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | PersistentVolumeClaim, PersistentVolume, StorageClass, VolumeAttachment; Node and CSINode for topology | CreateVolume, DeleteVolume | PersistentVolume (create, finalizer, delete), PersistentVolumeClaim (selected-node annotation, finalizer of what is cloned), VolumeSnapshot (finalizer of what is restored), Lease (intents), events |
//!
//! Promises:
//! - PROV-1: the volume's name is derived from the claim's UID, so every repeat of CreateVolume, by this process or the
//!   next, finds what an earlier one made. A call that may have taken effect is repeated as it was sent until the
//!   driver gives a final answer, also when claim or class are deleted meanwhile or the process has died.
//! - PROV-2: every volume that was made gets its object, also for a claim that is gone; the PV controller then releases it
//!   and it is deleted here. The object goes only after DeleteVolume succeeded and no attachment names it.
//! - PROV-3: only volumes with reclaim policy Delete are deleted. The policy is read past the cache just before the call.
//!
//! A CreateVolume is stored before it is sent (`intent`, ADR 9), so that a successor finishes it although claim, class
//! or node are gone: it repeats the very call, stores the object of what was made and lets it be released and
//! deleted like any other. Without the right to leases a volume can be left behind as with upstream; that is said once.
//!
//! Differences from upstream: a failed check before the call never makes an unanswered call forgettable; a volume that
//! came out too small, or without the content asked for, is deleted until that succeeds, not five times; waiting for a class
//! is a watch, not a retry. docs/differences.md lists all. Not there yet: in-tree migration.
//!
//! `capacity` publishes how much room there is; `node`, `prepare` and `decide/ownership` are for a provisioner on each node
//! (`--node-deployment`).

mod act;
pub mod capacity;
mod decide;
mod intent;
mod memory;
mod model;
mod node;
mod observe;
mod prepare;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use decide::source::{cloned_from, restored_from};
pub(super) use decide::template::expand;
pub use model::{
    Action, Attempt, Bidding, Claim, Cluster, Creation, Intent, Key, Observed, OwnNode, Secrets, Settings,
    Source, SourceClaim, SourceSnapshot, Stored, Unusable, Volume, Why,
};
pub use role::{Flags, Provisioner};
