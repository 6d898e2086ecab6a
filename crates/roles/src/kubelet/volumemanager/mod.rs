//! Upstream: the kubelet's volume manager and the CSI volume plugin's node half.
//!
//! Watches Pods of this node, CSIDrivers and the Node; reads PersistentVolumeClaims, PersistentVolumes, VolumeAttachments
//! and Secrets one by one, as the Node authorizer allows. Calls NodeStageVolume, NodePublishVolume, NodeExpandVolume, NodeUnpublishVolume and
//! NodeUnstageVolume. Keeps `vol_data.json` beside each mount, and the list behind `node.status.volumesInUse`. Writes the sizes, resize states and
//! resize conditions in the status of claims whose volumes it expands (RES-1).
//!
//! | going in | going out |
//! |---|---|
//! | a pod needs the volume | the pod's last container has ended |
//! | listed in `volumesInUse`, accepted by the API | NodeUnpublishVolume per pod |
//! | in `volumesAttached` | NodeUnstageVolume after the last |
//! | NodeStageVolume once, NodePublishVolume per pod, each after a live read of node and attachment | out of `volumesInUse`: may be detached |
//!
//! Promises: NODE-1 (order of calls, one at a time per volume: the queue's key is the volume), NODE-3 (mounts of an
//! earlier process are found again and uncertain until a repeat or the inverse call has succeeded), ATT-3 (our half).
//!
//! Differs from upstream: a refused repeat of a call whose first answer was lost
//! leaves the volume uncertain (upstream forgets it); staging directories without a pod are found, too; a volume
//! that keeps failing for one pod does not hold up another. No loop device locks a block volume: the container's own
//! bind keeps the device open, and nothing here takes it away while the pod is inside.
//! Not here yet: SELinux. A block volume is not published again for `requiresRepublish`: it shows nothing that changes.

mod act;
mod block;
mod decide;
mod desired;
mod expand;
mod filesystem;
mod measure;
mod memory;
mod model;
mod mounts;
mod observe;
mod paths;
mod prepare;
mod reconstruct;
mod record;
mod request;
mod role;
mod sources;
mod stuck;
#[cfg(test)]
mod tests;
mod tokens;

pub use mounts::{MountedVolume, Mounts, PodVolumes, VolumeAt};
pub use paths::VOL_DATA;
pub use role::{Manager, Settings};
