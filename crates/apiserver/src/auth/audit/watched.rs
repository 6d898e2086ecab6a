//! Answers that go on: the audit log hears of their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_host::Clock;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::event::{Record, Stage};
use super::{Audit, Entry};
use crate::http::body::Body;

/// The same body; when it is over, or nobody wants the rest of it, the last line is written.
pub fn until_end(mut body: Body, audit: &Audit, record: Record) -> Body {
    let (queue, lost, clock) = (audit.queue.clone(), audit.lost.clone(), audit.clock.clone());
    body.hold(End { record, queue, lost, clock });
    body
}

struct End {
    record: Record,
    queue: mpsc::Sender<Entry>,
    lost: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

impl Drop for End {
    fn drop(&mut self) {
        let entry = Entry::Line(self.record.line(Stage::ResponseComplete, self.clock.now()));
        let (queue, lost) = (self.queue.clone(), self.lost.clone());
        match (queue.try_send(entry), tokio::runtime::Handle::try_current()) {
            (Ok(()), _) => {}
            // Nothing can wait here, so somebody else does; there are no more of these than there were answers.
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
