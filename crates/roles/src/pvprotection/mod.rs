//! `persistentvolume-protection-controller`: a volume that is bound outlives its deletion.
//!
//! **Watches** and **writes** volumes (the finalizer `kubernetes.io/pv-protection`, nothing else).
//!
//! # Promises
//! BIND-1: the object of a bound volume does not go away before its claim does.

mod act;
mod decide;
mod observe;
mod run;
#[cfg(test)]
mod tests;
mod world;

pub use decide::decide;
pub use run::run;
pub use world::{Action, Observed, Why};
