//! Goal: a kubelet runs as a process of its own, with a node's own certificate and no more rights than that gives; and
//! `bowline up --nodes` runs several of them on one machine.
//! Method: real processes on a real kernel. `alone` starts every program by itself; the others start `bowline up` with
//! several nodes, cut nodes off, kill processes and end them, and look at what is left.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clients;
mod programs;
#[path = "../support/mod.rs"]
mod support;
mod up;

mod alone;
mod cut;
mod ends;
mod fewer;

const DRIVER: &str = "local.csi.bowline.dev";
const NODE: &str = "worker-1";
const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
