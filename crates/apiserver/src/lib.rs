//! The API server: storage, rules of each kind, verbs, HTTP.
//!
//! Reading order: `field` and `kinds` (what a kind is), `registry` (kinds as the verbs see them), `store` (how
//! writes are ordered and kept), `verbs`, `server` (one request), `tls` (connections).
//!
//! Wiring: open a [`Store`], fill a [`Registry`], make a [`Server`] and `bootstrap` it. A clone of the server is
//! a `tower::Service` for callers in this process; [`tls::serve`] puts the same server on a port, with
//! certificates from [`certs::Authority`] and a kubeconfig from [`kubeconfig::write_kubeconfig`].

pub mod admission;
mod apply;
pub mod auth;
pub mod certs;
mod core;
mod custom;
mod discovery;
pub mod exchange;
pub mod field;
mod go_time;
mod golang;
mod http;
mod json;
pub mod kinds;
pub mod kubeconfig;
pub mod limits;
mod metadata;
mod metrics;
mod output;
mod patch;
mod protobuf;
pub mod proxy;
pub mod registry;
mod schema;
mod selector;
pub mod server;
mod socket;
pub mod status;
pub mod store;
#[cfg(test)]
mod testing;
pub mod tls;
mod verbs;

pub use crate::discovery::GIT_VERSION;
pub use crate::http::body::Body;
pub use registry::Registry;
pub use server::Server;
pub use store::Store;
