//! Upstream: the kubelet's plugin manager with its CSI registration handler.
//!
//! Watches the sockets in `<kubelet-dir>/plugins_registry`. Calls `GetInfo` and `NotifyRegistrationStatus` on each,
//! and `NodeGetInfo` and `NodeGetCapabilities` on the driver behind it. Writes the driver's entry in the CSINode,
//! and the node-id annotation and topology labels of the Node. Fills [`Drivers`], the table of drivers that can be
//! called here; a driver that is not in it is away for now, never gone for good.
//!
//! Promises: a driver is in the table only while its socket stands, and never with the endpoint of an earlier
//! socket. A socket that is made again is a new registration.
//!
//! Differs from upstream: the entry in the CSINode outlives a vanished socket by [`LINGER`], so that a restart of
//! the registrar does not take the attach limit away from under the scheduler; capabilities are read once per
//! registration instead of with every call; the driver enters the table when all of that has succeeded.

mod act;
mod decide;
mod drivers;
mod memory;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;
mod version;

pub use drivers::{Capabilities, Drivers, Registered};
pub use model::LINGER;
pub use role::{Manager, Settings};
