//! Upstream: the kubelet's volume stat calculators, and the collectors of `kubelet_volume_stats_*`.
//!
//! Watches Pods of this node and the volume manager's mounts. Calls NodeGetVolumeStats for each mounted CSI volume of a
//! driver that has GET_VOLUME_STATS, once a minute with upstream's jitter; a driver that does not answer costs no other
//! driver anything. Shows the answers in `/stats/summary` and in `/metrics`. With the gate CSIVolumeHealth a volume that the
//! driver calls abnormal is told to its pod.
//!
//! Writes nothing but events, and no decision of another role depends on it.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod role;
mod summary;
#[cfg(test)]
mod tests;

pub use memory::Stats;
pub use role::{Calculator, Settings};
