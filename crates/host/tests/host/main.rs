//! The doors against a real kernel. These tests need root, loop devices and the usual filesystem tools, and fail
//! without them: a door that was not opened is not known to work.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

mod blocks;
mod boundary;
mod cgroups;
mod containers;
mod devices;
mod disk;
mod exec;
mod fake;
mod fake_trouble;
mod filesystems;
mod formatting;
mod freezing;
mod group;
mod growing;
mod journey;
mod kernel;
mod moments;
mod names;
mod net;
mod seccomp;
mod subpaths;
mod trees;
mod world;
