//! `local.csi.bowline.dev`: volumes as sparse images on a disk of this node.
//!
//! A volume is a file in the pool directory. Staging attaches it to a loop device, formats it on first use and
//! mounts it; publishing binds that mount, or the device itself, to where a workload expects it.
//!
//! A class may say `fsType` (ext4, xfs, btrfs), `mkfsOptions` (see `mkfs`) and `fsLabel` (see `recipe`). A pod's inline
//! volume says the same and `size`, `100Mi` if it does not (see `ephemeral`).
//!
//! Promises, each with its tests in `tests/`:
//! - one volume per name, whatever crashes or times out on the way (`provision`, `id`);
//! - a device that may hold data is never formatted, NODE-2 (`plan::first_use`);
//! - a volume is on one node at a time, ATT-2 (`plan::publish`);
//! - a call that has begun ends, even if its caller has gone; until then the volume answers ABORTED (`driver`);
//! - a restart forgets nothing: what cannot be seen is in the record, the rest is asked of the kernel (`record`);
//! - nothing is promised beyond the limits of the pool, and GetCapacity says exactly what can be had (`room`);
//! - a volume never shrinks, and a filesystem fills its device when a workload sees it (`expand`, `grow`);
//! - a lost record is no lost volume: its image says what it is (`shelf::label`); one spoilt record keeps no other
//!   volume from being used (`shelf::verdict`);
//! - a device that has another image by now is never taken for the volume's own (`devices`);
//! - one process per pool (`claim`), and nothing left over from the one before it (`adopt`);
//! - a snapshot is of one moment, groups included, or the call fails; workloads that were stopped for it go on,
//!   whatever happens (`moment`);
//! - no id reaches beyond its directory in the pool (`id`), no secret reaches a log or a record, SEC-1.
//!
//! Reading order: `parse` → `plan` → `provision`, `attach`, `stage`, `prepare`, `target`, `ephemeral`, `expand`,
//! `modify`, `stats`, `snapshot`, `group` → `controller`, `node`, `metadata`.

mod adopt;
mod aftermath;
mod attach;
pub mod check;
mod claim;
mod config;
mod controller;
mod damage;
mod devices;
mod dialect;
mod driver;
mod ephemeral;
mod expand;
mod fit;
mod flags;
mod full;
mod group;
mod grow;
mod health;
mod identity;
mod list;
mod metadata;
mod mkfs;
mod modify;
mod moment;
mod mounts;
mod node;
mod node_expand;
mod parse;
mod plan;
mod pool;
mod prepare;
mod provision;
mod recipe;
mod record;
mod regroup;
mod restore;
mod room;
mod serve;
mod settings;
mod shown;
mod snapshot;
mod stage;
mod stats;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod unused;
mod validate;
mod vitals;

pub use config::{ConfigError, LocalConfig, NamedNode};
pub use dialect::Dialect;
pub use flags::LocalFlags;
pub use serve::run;
pub(crate) use unused::unused;

/// The name by which callers know this driver.
pub const NAME: &str = "local.csi.bowline.dev";

/// The topology key every node reports, with its node id as value.
pub const TOPOLOGY_KEY: &str = "topology.local.csi.bowline.dev/node";
