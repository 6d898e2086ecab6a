//! `persistentvolumeclaim-protection-controller`: a claim that a pod on a node uses outlives its deletion.
//!
//! **Watches** claims and pods. **Reads** the pods of a namespace live before it lets a claim go.
//! **Writes** the finalizer `kubernetes.io/pvc-protection` of claims, nothing else.
//!
//! # Promises
//! The finalizer goes only after the API server itself listed no pod that has a node and uses the claim. Pods without
//! a node never count: the scheduler refuses claims that are being deleted.

mod act;
mod decide;
mod live;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Observed, Usage, Why};
pub use role::Protection;
