//! What an operator can see of a driver: Prometheus text and a health check.
//!
//! The RPC histogram has the name, labels and buckets of csi-lib-utils' for plugins, so dashboards made for
//! other drivers work.

mod gather;
mod operations;
mod serve;

pub use gather::{Gauge, Vitals};
pub use operations::Operations;
#[cfg(test)]
pub use operations::counts;
pub use serve::{Endpoint, MetricsError};
