//! kubernetes-csi/livenessprobe: answers `/healthz` with what the driver answers to Probe.
//!
//! The kubelet restarts the driver's container by it. Each request makes a connection of its own: one that was made before
//! would still work after the socket was removed, and the driver could no longer be reached. It asks nothing of the API
//! server, and a driver that is slow or absent never ends it.

mod probe;
#[cfg(test)]
mod tests;

pub use probe::{Flags, NAME, health, name, probe};
