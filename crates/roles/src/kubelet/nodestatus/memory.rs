//! What this process wrote last, and when by the clock that only counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::Lease;

#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    renewed: Option<Duration>,
    status_written: Option<Duration>,
    csi_node_read: Option<Duration>,
}

impl Memory {
    pub(super) fn lease(&self) -> Option<Lease> {
        self.lock().lease.clone()
    }

    /// The lease as the API server has it now; renewed by us at `uptime`.
    pub(super) fn renewed(&self, lease: Lease, uptime: Duration) {
        let mut state = self.lock();
        (state.lease, state.renewed) = (Some(lease), Some(uptime));
    }

    /// What we wrote last is no longer what there is.
    pub(super) fn lease_unknown(&self) {
        let mut state = self.lock();
        (state.lease, state.renewed) = (None, None);
    }

    pub(super) fn lease_age(&self, uptime: Duration) -> Option<Duration> {
        self.lock().renewed.map(|at| uptime.saturating_sub(at))
    }

    pub(super) fn wrote_status(&self, uptime: Duration) {
        self.lock().status_written = Some(uptime);
    }

    pub(super) fn status_age(&self, uptime: Duration) -> Option<Duration> {
        self.lock().status_written.map(|at| uptime.saturating_sub(at))
    }

    pub(super) fn read_csi_node(&self, uptime: Duration) {
        self.lock().csi_node_read = Some(uptime);
    }

    pub(super) fn csi_node_age(&self, uptime: Duration) -> Option<Duration> {
        self.lock().csi_node_read.map(|at| uptime.saturating_sub(at))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
