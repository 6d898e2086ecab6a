//! `persistentvolume-protection-controller`: a volume that is bound outlives its deletion.
//!
//! **Watches** and **writes** volumes (the finalizer `kubernetes.io/pv-protection`, nothing else).
//!
//! # Promises
//! BIND-1: the object of a bound volume does not go away before its claim does.

mod act;
mod decide;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Observed, Why};
pub use role::Protection;
