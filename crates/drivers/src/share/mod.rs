//! `share.csi.bowline.dev`: volumes as directories that any number of workloads use at once.
//!
//! A volume is a directory of the pool. Nothing is attached and nothing staged: publishing binds the directory to
//! where a workload expects it. Every node that runs this driver has to see the pool at the same path; one process
//! of the driver serves it.
//!
//! The size of a volume is a number in its record. Nothing enforces it: all volumes share the room of the pool,
//! and statistics are those of the filesystem below.
//!
//! Promises, each with its tests in `tests/`:
//! - one process and one installation per pool (`pool_lock`);
//! - one volume per name, whatever crashes or times out on the way (`provision`);
//! - what a workload sees as read-only cannot be written through (`plan::publish`);
//! - a volume that must have one target has one (`plan::publish`);
//! - deleting removes the directory and nothing else: no link is followed, no mount entered, and nothing is removed
//!   while the volume shows anywhere (`plan::delete`, `Disk::remove_tree`);
//! - an inline volume lives from publish to unpublish, and no claim can take it over (`target`);
//! - a call that has begun ends, even if its caller has gone; until then the volume answers ABORTED (`work`);
//! - a restart forgets nothing: what cannot be seen is in the record, the rest is asked of the kernel (`record`).
//!
//! Reading order: `parse` → `plan` → `provision`, `target` → `controller`, `node`.

mod capability;
mod config;
mod controller;
mod directory;
mod driver;
mod identity;
mod list;
mod mounts;
mod node;
mod parse;
mod plan;
mod provision;
mod record;
mod serve;
mod stats;
mod target;
#[cfg(test)]
mod tests;
mod unused;
mod validate;

pub use config::{ConfigError, Further, ShareConfig, ShareFlags};
pub use serve::run;
pub(crate) use unused::unused;

/// The name by which callers know this driver.
pub const NAME: &str = "share.csi.bowline.dev";
