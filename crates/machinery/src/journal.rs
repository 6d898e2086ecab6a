//! The journey as it happens: every effect of every component, in order.
//!
//! The demo prints it, the simulation compares it, the benchmark splits time by it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

/// One effect that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    /// Who did it, in upstream's words (`external-provisioner`, `kubelet`, …).
    pub component: &'static str,
    /// What it did (`CreateVolume`, `create`, `patch status`, …).
    pub action: String,
    /// On what (`persistentvolumeclaim default/data`).
    pub object: String,
    /// How long the call took.
    pub took: Duration,
    /// How it ended: empty when done, otherwise the error.
    pub error: String,
}

/// Where entries go; clones share it. Without a listener it costs a lock.
#[derive(Clone, Default)]
pub struct Journal {
    listeners: Arc<Mutex<Vec<mpsc::UnboundedSender<Entry>>>>,
}

impl Journal {
    /// Entries from now on. The caller keeps reading or drops the receiver.
    pub fn listen(&self) -> mpsc::UnboundedReceiver<Entry> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub fn record(&self, entry: Entry) {
        tracing::debug!(
            component = entry.component,
            action = entry.action,
            object = entry.object,
            took_us = entry.took.as_micros() as u64,
            error = entry.error,
            "effect"
        );
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(entry.clone()).is_ok());
    }
}
