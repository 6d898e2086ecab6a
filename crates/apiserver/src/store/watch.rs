//! Watching one kind: a position in its log, and a wake-up when the log grows.

use std::sync::Arc;

use tokio::sync::Notify;

use super::object::Event;
use super::snapshot::Gone;
use super::state::Shared;

/// Events and bytes of JSON handed out at a time, so that one slow watcher holds little.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 128 << 10;

/// Sees every event of a kind after its position exactly once and in order, or [`Gone`].
pub struct Watcher {
    shared: Arc<Shared>,
    resource: Arc<str>,
    woken: Arc<Notify>,
    position: u64,
    epoch: u64,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>, resource: Arc<str>, after: u64) -> Result<Self, Gone> {
        let woken = shared.woken(&resource);
        let (oldest, epoch) = {
            let state = shared.read();
            (state.floor(&resource), state.epoch())
        };
        if after < oldest {
            return Err(Gone { wanted: after, oldest });
        }
        Ok(Self { shared, resource, woken, position: after, epoch })
    }

    /// Waits for events; never returns an empty list. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Gone> {
        let woken = self.woken.clone();
        loop {
            let waiting = woken.notified();
            tokio::pin!(waiting);
            // Enlisted before looking, so that an event in between is not missed.
            waiting.as_mut().enable();
            let events = self.ready()?;
            if !events.is_empty() {
                return Ok(events);
            }
            waiting.await;
        }
    }

    /// What is there already; may be empty.
    pub fn ready(&mut self) -> Result<Vec<Arc<Event>>, Gone> {
        let state = self.shared.read();
        let oldest = state.floor(&self.resource);
        if self.position < oldest || self.epoch != state.epoch() {
            return Err(Gone { wanted: self.position, oldest });
        }
        let Some(table) = state.table(&self.resource) else { return Ok(Vec::new()) };
        let mut bytes = 0;
        let mut events: Vec<Arc<Event>> = Vec::new();
        for event in table.log.after(self.position) {
            // What happened at one version (objects whose lease ended) goes together: a position is a version.
            let together = events.last().is_some_and(|last| last.version == event.version);
            if !together && (events.len() >= BATCH_MAX || bytes >= BATCH_BYTES_MAX) {
                break;
            }
            bytes += event.object.json.len();
            events.push(event.clone());
        }
        if let Some(last) = events.last() {
            self.position = last.version;
        }
        Ok(events)
    }

    /// The version a client may resume from without missing anything, if all events so far were taken.
    ///
    /// This is the version of the whole store, so it moves on although this kind is quiet.
    pub fn settled(&mut self) -> Option<u64> {
        let state = self.shared.read();
        if self.epoch != state.epoch() {
            return None;
        }
        let behind = state.table(&self.resource).is_some_and(|t| t.log.after(self.position).next().is_some());
        if behind {
            return None;
        }
        self.position = self.position.max(state.version());
        Some(self.position)
    }
}
