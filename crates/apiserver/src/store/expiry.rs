//! Objects that go away by themselves, for stores whose backend does not see to that.
//!
//! The sequencer notes when an object's time is up, and the backend keeps it with the object; a task deletes what is
//! due through the ordinary way of writing, so an object that was written meanwhile stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::backend::Loaded;
use super::draft::Slot;
use super::options::{Expiry, expires};
use super::{Change, Expect, Inner, Store, Write};

/// Deleted at a time: they share one sync.
const BATCH_MAX: usize = 256;
/// Looks again after this long at most, because the wall clock may be set.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Looks again after this long at least, so that what is due at the same time goes together.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// When objects go away, and which come first.
pub struct Expiries {
    settings: Expiry,
    queue: Mutex<Queue>,
    /// The store is closed.
    closed: Notify,
}

#[derive(Default)]
struct Queue {
    due: BTreeMap<(Timestamp, Slot), u64>,
    times: BTreeMap<Slot, Timestamp>,
}

impl Queue {
    fn set(&mut self, slot: Slot, version: u64, at: Timestamp) {
        self.forget(&slot);
        self.times.insert(slot.clone(), at);
        self.due.insert((at, slot), version);
    }

    fn forget(&mut self, slot: &Slot) {
        if let Some(at) = self.times.remove(slot) {
            self.due.remove(&(at, slot.clone()));
        }
    }

    /// Sets a time again that was taken, unless the object was written meanwhile and has a new one.
    fn put_back(&mut self, slot: Slot, version: u64, at: Timestamp) {
        if !self.times.contains_key(&slot) {
            self.set(slot, version, at);
        }
    }

    /// Takes what is due, soonest first.
    fn take(&mut self, now: Timestamp, max: usize) -> Vec<(Slot, u64)> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(first) = self.due.first_entry().filter(|entry| entry.key().0 <= now) else { break };
            let ((_, slot), version) = first.remove_entry();
            self.times.remove(&slot);
            taken.push((slot, version));
        }
        taken
    }
}

impl Expiries {
    /// Objects of a kind that expires but without a time of their own get a whole new one.
    pub fn new(settings: Expiry, loaded: &Loaded) -> Self {
        let mut queue = Queue::default();
        let times: BTreeMap<_, _> =
            loaded.expiries.iter().map(|(resource, key, at)| ((resource, key), *at)).collect();
        let fresh = end(&settings);
        for (resource, object) in loaded.objects.iter().filter(|(resource, _)| expires(resource)) {
            let at = times.get(&(resource, &object.key)).copied().unwrap_or(fresh);
            queue.set((resource.clone(), object.key.clone()), object.version, at);
        }
        Self { settings, queue: Mutex::new(queue), closed: Notify::new() }
    }

    /// When an object that is written now goes away.
    pub fn end(&self) -> Timestamp {
        end(&self.settings)
    }

    pub fn set(&self, slot: Slot, version: u64, at: Timestamp) {
        self.lock().set(slot, version, at);
    }

    pub fn forget(&self, slot: &Slot) {
        self.lock().forget(slot);
    }

    pub fn close(&self) {
        self.closed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long nothing can be due.
    fn pause(&self) -> Duration {
        let first = self.lock().due.first_key_value().map(|((at, _), _)| *at);
        let left = first.map(|at| at.duration_since(self.settings.clock.now()));
        let left = left.map_or(PAUSE_MAX, |left| Duration::try_from(left).unwrap_or(PAUSE_MIN));
        left.clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

fn end(settings: &Expiry) -> Timestamp {
    let ttl = SignedDuration::try_from(settings.ttl).unwrap_or(SignedDuration::MAX);
    settings.clock.now().checked_add(ttl).unwrap_or(Timestamp::MAX)
}

/// Deletes what is due until the store is closed.
pub(super) async fn run(expiries: Arc<Expiries>, store: Weak<Inner>) {
    loop {
        tokio::select! {
            () = expiries.closed.notified() => return,
            () = tokio::time::sleep(expiries.pause()) => {}
        }
        // Held only while something is deleted, so that this task does not keep the store open.
        let Some(inner) = store.upgrade() else { return };
        sweep(&expiries, &Store { inner }).await;
    }
}

/// Deletes everything that is due now.
pub(super) async fn sweep(expiries: &Expiries, store: &Store) {
    loop {
        let due = expiries.lock().take(expiries.settings.clock.now(), BATCH_MAX);
        if due.is_empty() {
            return;
        }
        let deletions = due.into_iter().map(|((resource, key), version)| async move {
            let slot = (resource.clone(), key.clone());
            let write = Write { resource, key, expect: Expect::Version(version), change: Change::Delete };
            match store.write(write).await {
                // Whoever wrote it meanwhile set a new time.
                Ok(_) | Err(super::WriteError::Conflict { .. }) => None,
                Err(super::WriteError::Unavailable(trouble)) => Some((slot, version, trouble)),
            }
        });
        let failed: Vec<_> = futures::future::join_all(deletions).await.into_iter().flatten().collect();
        let Some((_, _, trouble)) = failed.first() else { continue };
        tracing::warn!(count = failed.len(), %trouble, "expired events could not be deleted; they are tried again");
        let now = expiries.settings.clock.now();
        let mut queue = expiries.lock();
        for (slot, version, _) in failed {
            queue.put_back(slot, version, now);
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_api::ObjectKey;

    #[test]
    fn what_was_written_again_is_due_later() {
        let slot = |name: &str| -> Slot { ("events".into(), ObjectKey::new("ns", name)) };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut queue = Queue::default();
        queue.set(slot("a"), 1, at(10));
        queue.set(slot("b"), 2, at(20));
        queue.set(slot("c"), 3, at(30));
        queue.set(slot("a"), 4, at(40));
        queue.forget(&slot("b"));
        assert_eq!(queue.take(at(29), 9), []);
        assert_eq!(queue.take(at(50), 1), [(slot("c"), 3)]);
        assert_eq!(queue.take(at(50), 9), [(slot("a"), 4)]);
        assert!(queue.due.is_empty() && queue.times.is_empty());
        // Its deletion failed, and meanwhile it was written again or not.
        queue.set(slot("a"), 5, at(90));
        queue.put_back(slot("a"), 4, at(50));
        queue.put_back(slot("c"), 3, at(50));
        assert_eq!(queue.take(at(60), 9), [(slot("c"), 3)]);
        assert_eq!(queue.take(at(90), 9), [(slot("a"), 5)]);
    }
}
