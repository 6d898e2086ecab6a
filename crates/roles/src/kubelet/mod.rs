//! The kubelet: what its roles share, and how they are started together and stopped.

mod alarms;
pub(crate) mod fs_group;
pub mod localvolumes;
pub mod nodestatus;
mod owned;
pub mod pluginmanager;
pub mod pods;
mod records;
mod reported;
mod run;
mod server;
mod tenants;
#[cfg(test)]
mod tests;
pub mod volumemanager;
mod volumestats;

pub use alarms::Alarms;
pub use owned::{KnownPods, Owned, Owner, OwnerFlags};
pub use records::PodRecords;
pub use reported::{PATIENCE, Reported};
pub use run::{Kubelet, KubeletConfig, run_kubelet};
pub use server::{Serving, attributes};
pub use tenants::Tenants;

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

/// Hands a view over, once.
pub(crate) fn show<T>(to: &Mutex<Option<oneshot::Sender<T>>>, view: T) {
    let sender = to.lock().unwrap_or_else(PoisonError::into_inner).take();
    // A kubelet that is being stopped no longer waits for it.
    let _ = sender.map(|sender| sender.send(view));
}
