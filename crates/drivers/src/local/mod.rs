//! `local.csi.bowline.dev`: volumes as sparse images on a disk of this node.
//!
//! A volume is a file in the pool directory. Staging attaches it to a loop device, formats it on first use and
//! mounts it; publishing binds that mount, or the device itself, to where a workload expects it.
//!
//! Promises, each with its tests in `tests/`:
//! - one volume per name, whatever crashes or times out on the way (`provision`, `id`);
//! - a device that may hold data is never formatted, NODE-2 (`plan::first_use`);
//! - a volume is on one node at a time, ATT-2 (`plan::publish`);
//! - a call that has begun ends, even if its caller has gone; until then the volume answers ABORTED (`driver`);
//! - a restart forgets nothing: what cannot be seen is in the record, the rest is asked of the kernel (`record`);
//! - no id reaches beyond its directory in the pool (`id`), no secret reaches a log or a record, SEC-1.
//!
//! Reading order: `parse` → `plan` → `provision`, `attach`, `stage`, `target` → `controller`, `node`.

mod attach;
mod config;
mod controller;
mod dialect;
mod driver;
mod flags;
mod health;
mod identity;
mod list;
mod mounts;
mod node;
mod parse;
mod plan;
mod pool;
mod provision;
mod record;
mod serve;
mod stage;
mod target;
#[cfg(test)]
mod tests;
mod validate;
mod vitals;

pub use config::{ConfigError, LocalConfig, NamedNode};
pub use dialect::Dialect;
pub use flags::{Endpoint, LocalFlags};
pub use serve::{RunError, run};

/// The name by which callers know this driver.
pub const NAME: &str = "local.csi.bowline.dev";

/// The topology key every node reports, with its node id as value.
pub const TOPOLOGY_KEY: &str = "topology.local.csi.bowline.dev/node";
