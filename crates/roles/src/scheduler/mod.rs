//! `kube-scheduler`, as far as volumes decide: finds a node for each pod and has its volumes bound there first.
//!
//! **Watches** pods, nodes, claims, volumes, classes, CSIDrivers, CSINodes, CSIStorageCapacities, VolumeAttachments.
//! **Writes** `volume.kubernetes.io/selected-node` on claims, `claimRef` on volumes that exist already, the pod's
//! `PodScheduled` condition, and finally the pod's binding. **Calls** no driver.
//!
//! A pod is decided step by step, and everything between two steps is in the objects: a claim with a selected node
//! fits only there, a reserved volume is found again, a bound claim is reachable or not. Whatever dies in between,
//! the next pass comes to the same node or says why it cannot.
//!
//! # Promises
//! A pod is bound only when every claim it uses is bound to a volume that its node can reach (BIND-2), and never a
//! second pod to a ReadWriteOncePod claim. A volume is reserved only while it names nobody or this claim (BIND-1).
//!
//! # Upstream
//! Filters, in this order: unschedulable nodes, taints, node selector and affinity, ReadWriteOncePod, volume limits,
//! volume binding. Resource requests, ports, affinity between pods, topology spread and preemption are left out.
//! Among the nodes that fit, the one with the least to run is taken, ties by name. Nothing polls: a pod that found no
//! place, or waits for its volumes, is looked at again when something it depends on changes.

mod act;
mod assumed;
pub mod decide;
mod filed;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;
mod tried;
mod unread;

pub use model::{Action, ClaimSeen, NodeSeen, Observed, Room, Why};
pub use role::Scheduler;
