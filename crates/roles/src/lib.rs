//! The roles, grouped by the upstream program that has them: one folder per component, each readable in the same order.
//!
//! `mod.rs` (what it is), `model.rs` (plain data), `decide.rs` (pure: the behaviour), `observe.rs` (caches → data),
//! `act.rs` (one effect per action), `role.rs` (flags, watches and wiring), `tests.rs` (tables and properties).

pub mod controllers;
pub mod crew;
pub mod embedded;
pub mod indexes;
pub mod invariants;
pub mod kubelet;
pub mod rights;
pub mod scheduler;
pub mod sidecars;

use bowline_machinery::RunError;

/// A role's flags as its command line would give them, for wiring roles together in one process.
pub fn flags<F: clap::Args>(arguments: &[&str]) -> Result<F, RunError> {
    let command = F::augment_args(clap::Command::new("role").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments);
    matches.and_then(|m| F::from_arg_matches(&m)).map_err(|error| RunError::Refused(error.to_string()))
}
