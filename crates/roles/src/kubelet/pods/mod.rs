//! Upstream: the kubelet's pod workers, container runtime manager and status manager.
//!
//! Watches the Pods that are bound to this node, and through [`Mounts`](crate::kubelet::volumemanager::Mounts) and
//! [`Local`](crate::kubelet::localvolumes::Local) their volumes.
//! Starts, signals and removes containers through `host.containers`; writes `pods/status` and, at the very end, the
//! DELETE that takes the Pod out of the API. Its word to the volume manager is [`Tenants`](crate::kubelet::Tenants).
//!
//! Promises: NODE-3 (containers outlive this process, are adopted by the next one and never started twice: an id is
//! `<pod uid>/<container>/<attempt>`, and an attempt that has a record is not made again); no container starts
//! before all volumes of its pod are mounted; a Pod stays in the API until its volumes are unmounted.
//!
//! Every field of a pod is honoured, refused or without meaning here: docs/pod-fields.md. What is refused waits with
//! upstream's reason and an event. Probes and hooks run beside the pod's worker; their state is in memory, and after a
//! restart what the API shows of the same run counts until they have been asked again.
//!
//! Differs from upstream: only the built-in image `host` runs; nothing is polled; a container is probed for the first time
//! when its initial delay is over and not at the next beat of the period; redirects of an HTTP probe are not followed.

mod act;
mod background;
mod decide;
mod directory;
mod handlers;
mod inspect;
mod last_lines;
mod leftovers;
mod model;
mod observe;
mod perform;
mod prepare;
mod probes;
mod role;
mod runtime;
mod spec;
mod status;
#[cfg(test)]
mod tests;

pub use inspect::{Inspector, host_id};
pub use model::Config;
pub use role::{Pods, Settings};
