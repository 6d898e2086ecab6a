//! `node-lifecycle-controller`, as far as it keeps the taints of a node equal to its Ready condition.
//!
//! **Watches** and **writes** nodes (the taints `node.kubernetes.io/not-ready` and `unreachable` with effect NoSchedule,
//! nothing else). A kubelet may not change its own taints: NodeRestriction refuses it.
//!
//! # Upstream
//! Differs in what is missing ([`LACKS`]): heartbeats are not watched, so that a node that has lost power stays Ready.

mod act;
mod decide;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

/// What kube-controller-manager says about it when it starts.
pub const LACKS: &str = "nodes that stop reporting are not marked as NotReady and their pods are not evicted: their volumes stay attached until a person deletes these pods by force and taints the node with node.kubernetes.io/out-of-service; leave this controller to upstream's program where that matters";

pub use decide::decide;
pub use model::{Action, Observed, Why};
pub use role::Lifecycle;
