//! Looks at a key again at a given uptime of the machine, however often it is asked for. No wall clock is involved.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::Queue;
use tokio::task::AbortHandle;

/// Alarms of one queue; clones share them.
#[derive(Clone)]
pub struct Alarms {
    queue: Queue<String>,
    set: Arc<Mutex<BTreeMap<String, (Duration, AbortHandle)>>>,
}

impl Alarms {
    pub fn new(queue: Queue<String>) -> Self {
        Self { queue, set: Arc::default() }
    }

    /// Adds the key to the queue at `at`, and no longer at the time that was set before. The same alarm again changes
    /// nothing while it is pending.
    pub fn set(&self, key: &str, at: Duration, now: Duration) {
        let mut set = self.lock();
        if set.get(key).is_some_and(|(pending, _)| *pending == at) {
            return;
        }
        let (alarms, name) = (self.clone(), key.to_owned());
        let delay = at.saturating_sub(now);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // No longer pending: the timer does not count while the machine is suspended, so it may be set again.
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Duration, AbortHandle)>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
