//! The kubelet: what its roles share, and how they are started together.

mod alarms;
mod tenants;

pub use alarms::Alarms;
pub use tenants::Tenants;
