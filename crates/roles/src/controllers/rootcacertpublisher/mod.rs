//! `root-ca-certificate-publisher-controller`: pods find the authority of the API server in their own namespace.
//!
//! **Watches** namespaces and config maps; **writes** the config map `kube-root-ca.crt`, nothing else.
//!
//! # Promises
//! CA-1: a namespace that stays has the authority's certificate, and gets it back if somebody deletes or changes it.

mod act;
mod decide;
mod model;
mod observe;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Observed, Why};
pub use role::Publisher;
