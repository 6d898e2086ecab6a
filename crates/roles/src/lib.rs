//! The roles: one folder per upstream component, each readable in the same order.
//!
//! `mod.rs` (what it is), `world.rs` (plain data), `decide.rs` (pure: the behaviour), `observe.rs` (caches → data),
//! `act.rs` (one effect per action), `run.rs` (flags and wiring), `tests.rs` (tables and properties).

pub mod attachdetach;
pub mod controllers;
pub mod crew;
pub mod embedded;
pub mod external_attacher;
pub mod external_provisioner;
pub mod garbagecollector;
pub mod indexes;
pub mod invariants;
pub mod kubelet;
pub mod localvolumes;
pub mod node_driver_registrar;
pub mod nodelifecycle;
pub mod nodestatus;
pub mod persistentvolume;
pub mod pluginmanager;
pub mod pods;
pub mod pvcprotection;
pub mod pvprotection;
pub mod rootcacertpublisher;
pub mod scheduler;
pub mod serviceaccount;
pub mod volumemanager;

use bowline_machinery::RunError;

/// A role's flags as its command line would give them, for wiring roles together in one process.
pub fn flags<F: clap::Args>(arguments: &[&str]) -> Result<F, RunError> {
    let command = F::augment_args(clap::Command::new("role").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments);
    matches.and_then(|m| F::from_arg_matches(&m)).map_err(|error| RunError::Refused(error.to_string()))
}
