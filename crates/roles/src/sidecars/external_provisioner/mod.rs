//! kubernetes-csi/external-provisioner (csi-provisioner): makes and deletes the volumes of one driver.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | PersistentVolumeClaim, PersistentVolume, StorageClass, VolumeAttachment; Node and CSINode for topology | CreateVolume, DeleteVolume | PersistentVolume (create, finalizer, delete), PersistentVolumeClaim (selected-node annotation), events |
//!
//! Promises:
//! - PROV-1: the volume's name is derived from the claim's UID, so every repeat of CreateVolume, by this process or the
//!   next, finds what an earlier one made. A call that may have taken effect is repeated with identical topology until the
//!   driver gives a final answer, also when the claim is deleted meanwhile.
//! - PROV-2: every volume that was made gets its object, also for a claim that is gone; the PV controller then releases it
//!   and it is deleted here. The object goes only after DeleteVolume succeeded and no attachment names it.
//! - PROV-3: only volumes with reclaim policy Delete are deleted. The policy is read past the cache just before the call.
//!
//! What a restart forgets: a claim that was deleted while its CreateVolume was unanswered. Nothing in the API names such a
//! volume any more, so if the process dies in that window as well, it stays behind in the backend, as with upstream.
//! Claims that still exist are driven again from the first list.
//!
//! Differences from upstream: a failed check before the call never makes an unanswered call forgettable; a volume that
//! came out too small is deleted until that succeeds, not five times; waiting for a class is a watch, not a retry. Not
//! there yet: data sources (snapshots, clones), capacity, `--node-deployment`, in-tree migration.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{
    Action, Attempt, Claim, Cluster, Creation, Key, Observed, Secrets, Settings, Undersized, Volume, Why,
};
pub use role::{Flags, Provisioner};
