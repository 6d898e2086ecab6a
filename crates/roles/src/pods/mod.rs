//! Upstream: the kubelet's pod workers, container runtime manager and status manager.
//!
//! Watches the Pods that are bound to this node, and through [`Mounts`](crate::volumemanager::Mounts) and
//! [`Local`](crate::localvolumes::Local) their volumes.
//! Starts, signals and removes containers through `host.containers`; writes `pods/status` and, at the very end, the
//! DELETE that takes the Pod out of the API. Its word to the volume manager is [`Tenants`](crate::kubelet::Tenants).
//!
//! Promises: NODE-3 (containers outlive this process, are adopted by the next one and never started twice: an id is
//! `<pod uid>/<container>/<attempt>`, and an attempt that has a record is not made again); no container starts
//! before all volumes of its pod are mounted; a Pod stays in the API until its volumes are unmounted.
//!
//! Differs from upstream: nothing is polled; only the built-in image `host` runs; probes, lifecycle hooks, sidecar
//! and ephemeral containers, subPath, and volumes of other plugins are refused or not looked at yet.

mod act;
mod decide;
mod directory;
mod inspect;
mod observe;
mod run;
mod runtime;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod world;

pub use inspect::{Inspector, host_id};
pub use run::run;
pub use world::Config;
