//! What upstream runs beside a CSI driver, under the names of upstream's repositories.

pub mod external_attacher;
pub mod external_health_monitor;
pub mod external_provisioner;
pub mod external_resizer;
pub mod external_snapshotter;
pub mod livenessprobe;
pub mod node_driver_registrar;
pub mod snapshot_controller;
mod snapshots;
#[cfg(test)]
mod testing;
