//! Upstream: the kubelet's node registration, node status manager and node lease controller.
//!
//! Watches its own Node, reads its CSINode and Lease. Writes the Node (labels, annotation), `nodes/status` (capacity,
//! addresses, conditions, `volumesInUse`), the CSINode object (its drivers are the plugin manager's) and the lease
//! `kube-node-lease/<node>`.
//!
//! Promises: ATT-3, our half: [`InUse`] is published the moment it changes, is never shrunk before the mounts that
//! an earlier process left are known, and a volume counts as reported only while no write without it is under way.
//!
//! Differs from upstream: `volumesInUse` does not wait for a 10 s tick; Ready becomes False on an orderly stop; a CSINode
//! that was deleted comes back within 10 s (upstream: with the next registration).

mod act;
mod decide;
mod in_use;
mod machine;
mod memory;
mod model;
mod object;
mod observe;
mod prepare;
mod role;
#[cfg(test)]
mod tests;

pub use in_use::InUse;
pub use role::{Settings, Status, Switch};
