//! The doors against a real kernel. These tests need root, loop devices and the usual filesystem tools, and fail
//! without them: a door that was not opened is not known to work.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

mod containers;
mod disk;
mod fake;
mod formatting;
mod journey;
mod kernel;
mod moments;
mod net;
mod world;
