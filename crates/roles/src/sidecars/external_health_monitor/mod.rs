//! kubernetes-csi/external-health-monitor (csi-external-health-monitor-controller): asks the driver about its volumes and
//! tells the owners of claims.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | PersistentVolume, PersistentVolumeClaim, Event (its own warnings), with `--enable-node-watcher` Node and Pod | ListVolumes, or else ControllerGetVolume | events on PersistentVolumeClaims |
//!
//! Only volumes of the driver that are Bound are looked at. An abnormal condition is told at every check; that a volume is
//! well again is told while the API server still has the warning. A call that fails and a volume that the driver does not
//! list say nothing about the volume.
//!
//! Differences from upstream are in docs/differences.md.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod prepare;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Condition, Key, Observed, Reading, Why};
pub use role::{Flags, HealthMonitor};
