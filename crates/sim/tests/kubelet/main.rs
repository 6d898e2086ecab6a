//! The kubelet's four roles against the real API server in memory, a fake machine and a driver with a memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod affinity;
mod attachment;
mod clock;
mod crash;
mod driver;
mod expand;
mod flows;
mod groups;
mod inline;
mod leftovers;
mod limits;
mod local;
mod objects;
mod restart;
mod rights;
mod spec;
mod stats;
mod teardown;
mod trouble;
mod world;
