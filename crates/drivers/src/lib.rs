//! CSI plugins. They speak gRPC on one side and `bowline_host` on the other, and know no Kubernetes.
//!
//! What every driver needs stands here; what makes a volume of one kind stands in the driver's folder.

mod authority;
mod calls;
mod capability;
mod capacity;
#[cfg(test)]
mod doors;
mod endpoint;
mod error;
mod fields;
mod id;
mod inflight;
pub mod inventory;
pub mod local;
mod metrics;
mod mount_options;
mod patience;
mod place;
mod pool_lock;
mod quantity;
mod serve;
pub mod share;
mod shelf;
mod targets;
mod work;

pub use endpoint::{BadEndpoint, Endpoint};
pub use serve::RunError;
