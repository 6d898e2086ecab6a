//! Looks at a key again at a given time, however often it is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::Queue;
use jiff::Timestamp;

/// Alarms of one queue; clones share them.
#[derive(Clone)]
pub struct Alarms {
    queue: Queue<String>,
    set: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

impl Alarms {
    pub fn new(queue: Queue<String>) -> Self {
        Self { queue, set: Arc::default() }
    }

    /// Adds the key to the queue at `at`. The same alarm again changes nothing while it is pending.
    pub fn set(&self, key: &str, at: Timestamp, now: Timestamp) {
        if self.lock().insert(key.to_owned(), at) == Some(at) {
            return;
        }
        let (alarms, key) = (self.clone(), key.to_owned());
        let delay = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // No longer pending: whoever finds the wall clock a little behind the timer can set it again.
            let mut set = alarms.lock();
            if set.get(&key) == Some(&at) {
                set.remove(&key);
            }
            drop(set);
            alarms.queue.add(key);
        });
    }

    pub fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
