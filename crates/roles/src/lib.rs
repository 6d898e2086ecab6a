//! The roles: one folder per upstream component, each readable in the same order.
//!
//! `mod.rs` (what it is), `world.rs` (plain data), `decide.rs` (pure: the behaviour), `observe.rs` (caches → data),
//! `act.rs` (one effect per action), `run.rs` (flags and wiring), `tests.rs` (tables and properties).

pub mod index;
pub mod persistentvolume;
pub mod pvcprotection;
pub mod pvprotection;
pub mod scheduler;
