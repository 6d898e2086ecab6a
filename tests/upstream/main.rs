//! Goal: our programs take their places in a real cluster, with no more rights than upstream's have.
//! Method: upstream's kube-apiserver with the Node and RBAC authorizers, programs as processes, each with its own
//! identity, ours and upstream's mixed. Claims that are bound at once and by the scheduler are used by a pod, attached,
//! detached and deleted; nothing is left, and the server's audit log has no request that was refused for want of rights.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod setup;
#[path = "../support/mod.rs"]
mod support;

mod containerd;
mod failures;
mod kubelet;
mod least;
mod mixes;
mod replicas;
mod sidecars;
