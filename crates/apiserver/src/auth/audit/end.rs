//! The last line of a request, also of one whose answer nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_host::Clock;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::event::Record;
use super::{Audit, Entry};

/// Writes the last line when it is dropped, unless that was done before: a client that hangs up ends its request
/// wherever that is, which undoes nothing of what it did.
pub struct End {
    pub record: Record,
    told: bool,
    queue: mpsc::Sender<Entry>,
    lost: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

impl End {
    pub fn new(audit: &Audit, record: Record) -> Self {
        let (queue, lost, clock) = (audit.queue.clone(), audit.lost.clone(), audit.clock.clone());
        Self { record, told: false, queue, lost, clock }
    }

    /// The last line is on its way.
    pub fn told(mut self) {
        self.told = true;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        self.record.left();
        let entry = Entry::Line(self.record.line(self.record.last_stage(), self.clock.now()));
        let (queue, lost) = (self.queue.clone(), self.lost.clone());
        match (queue.try_send(entry), tokio::runtime::Handle::try_current()) {
            (Ok(()), _) => {}
            // Nothing can wait here, so somebody else does; there are no more of these than there were requests.
            (Err(TrySendError::Full(entry)), Ok(runtime)) => {
                runtime.spawn(async move {
                    if queue.send(entry).await.is_err() {
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            (Err(_), _) => {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
