//! `garbage-collector-controller`: what a deleted object owned goes with it, or is set free.
//!
//! | watches | reads live | writes |
//! |---|---|---|
//! | the metadata of every kind that can be listed, watched and deleted | owners before a dependent is deleted; all dependents before an owner lets them go | deletions, owner references, the finalizers `orphan` and `foregroundDeletion` |
//!
//! # Promises
//! GC-1: an object is deleted only if it has owners and the API server itself said of every one of them that it is
//! gone (by UID) or waits for its dependents to go; and only if its references are still the ones that were looked at
//! (UID and resourceVersion are preconditions of each deletion).
//! GC-2: an owner that is deleted with `Orphan` goes only after a live list of every kind showed no dependent that
//! still refers to it, so a dependent that the watch has not brought yet is not lost.
//! GC-3: an owner that is deleted with `Foreground` goes after the dependents that block it.
//!
//! All state is the graph, which is rebuilt from the watches. A custom resource definition that comes or goes starts
//! a new discovery.
//!
//! Differences from upstream: a change of a watched kind wakes the discovery at once, there is no poll every 30 s;
//! references to an orphaning owner are removed by the dependents' own turn, not in one loop; an object with an owner
//! that orphans it and other owners that are gone stays, whichever is looked at first; while an aggregated API has not
//! answered since the start, owners with finalizers of this role wait, because it may hold their dependents.

mod absent;
mod act;
mod decide;
mod graph;
mod kinds;
mod lists;
mod model;
mod monitors;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Dependents, Identity, Kind, Observed, Owner, Policy, Referred, Stragglers, Why};
pub use role::Collector;
