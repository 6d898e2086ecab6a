//! The kubelet: what its roles share, and how they are started together and stopped.

mod alarms;
pub(crate) mod fs_group;
mod owned;
mod records;
mod reported;
mod run;
mod server;
mod tenants;
#[cfg(test)]
mod tests;

pub use alarms::Alarms;
pub use owned::{KnownPods, Owned, Owner};
pub use records::PodRecords;
pub use reported::{PATIENCE, Reported, later};
pub use run::{Kubelet, KubeletConfig, run_kubelet};
pub use server::Serving;
pub use tenants::Tenants;
