//! The toolbox of roles: client, shared caches, work queues, effects, events, CSI connections.
//!
//! Reading order: `role` (the shape of a role and its runner), `ports` (what a role is given), then the tools.

pub mod backlog;
pub mod backoff;
pub mod cache;
pub mod capability;
pub mod client;
pub mod csi;
pub mod effect;
pub mod events;
#[cfg(test)]
mod fake_api;
pub mod fetched;
pub mod flags;
pub mod identity;
pub mod incoming;
pub mod informers;
pub mod journal;
mod keypair;
pub mod lease;
pub mod listeners;
pub mod metrics;
pub mod ports;
pub mod queue;
mod recent;
mod recovery;
pub mod reflector;
mod refresh;
pub mod role;
pub mod secrets;
pub mod serve;
pub mod sidecar;
pub mod starts;
pub mod supervise;
pub mod told;
pub mod watched;

pub use cache::{Cache, Change};
pub use client::{Client, Object};
pub use effect::{EffectError, Effects, Fate};
pub use events::Recorder;
pub use fetched::Fetched;
pub use identity::Identity;
pub use informers::Informers;
pub use journal::Journal;
pub use lease::{Leadership, Lease};
pub use metrics::Metrics;
pub use ports::{Ports, RunError};
pub use queue::{Pool, Queue, Verdict};
pub use reflector::Scope;
pub use role::{Context, Role, Step, Watches};
pub use sidecar::Sidecar;
pub use starts::Starts;
pub use told::Told;
pub use watched::{Found, Watched};
