//! CSI plugins. They speak gRPC on one side and `bowline_host` on the other, and know no Kubernetes.
//!
//! What every driver needs stands here; what makes a volume of one kind stands in the driver's folder.

mod calls;
mod capability;
mod capacity;
mod error;
mod id;
mod inflight;
pub mod local;
mod metrics;
mod serve;
mod shelf;
mod work;
