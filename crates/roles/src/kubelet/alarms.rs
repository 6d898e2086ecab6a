//! Looks at a key again at a given time, however often it is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
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

    /// Adds the key to the queue at `at`. The same alarm again changes nothing.
    pub fn set(&self, key: &str, at: Timestamp, now: Timestamp) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = set.get(key).filter(|pending| **pending > now);
        if pending == Some(&at) {
            return;
        }
        set.insert(key.to_owned(), at);
        let delay = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        self.queue.add_after(key.to_owned(), delay);
    }

    pub fn forget(&self, key: &str) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
