//! Looks at a key again at a given time, however often it is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::Queue;
use jiff::Timestamp;
use tokio::task::AbortHandle;

/// Alarms of one queue; clones share them.
#[derive(Clone)]
pub struct Alarms {
    queue: Queue<String>,
    set: Arc<Mutex<BTreeMap<String, (Timestamp, AbortHandle)>>>,
}

impl Alarms {
    pub fn new(queue: Queue<String>) -> Self {
        Self { queue, set: Arc::default() }
    }

    /// Adds the key to the queue at `at`, and no longer at the time that was set before. The same alarm again changes
    /// nothing while it is pending.
    pub fn set(&self, key: &str, at: Timestamp, now: Timestamp) {
        let mut set = self.lock();
        if set.get(key).is_some_and(|(pending, _)| *pending == at) {
            return;
        }
        let (alarms, name) = (self.clone(), key.to_owned());
        let delay = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // No longer pending: whoever finds the wall clock a little behind the timer can set it again.
            let mut set = alarms.lock();
            if set.get(&name).is_some_and(|(pending, _)| *pending == at) {
                set.remove(&name);
            }
            drop(set);
            alarms.queue.add(name);
        });
        if let Some((_, replaced)) = set.insert(key.to_owned(), (at, timer.abort_handle())) {
            replaced.abort();
        }
    }

    pub fn forget(&self, key: &str) {
        if let Some((_, pending)) = self.lock().remove(key) {
            pending.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Timestamp, AbortHandle)>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
