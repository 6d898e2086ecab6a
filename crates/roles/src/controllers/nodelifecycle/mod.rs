//! `node-lifecycle-controller`, as far as it keeps the taints of a node equal to its Ready condition.
//!
//! **Watches** and **writes** nodes (the taints `node.kubernetes.io/not-ready` and `unreachable` with effect NoSchedule,
//! nothing else). A kubelet may not change its own taints: NodeRestriction refuses it.
//!
//! # Upstream
//! Differs in what is missing: nodes that fall silent are not marked Unknown yet, and no pod is evicted.

mod act;
mod decide;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Observed, Why};
pub use role::Lifecycle;
