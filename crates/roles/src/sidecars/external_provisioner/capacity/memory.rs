//! The driver's last answers, and the segments that were seen last. Losing them costs a question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::model::{Key, Measured, Segment};

/// What the driver said, and at which uptime it was asked.
#[derive(Default)]
pub(super) struct Answers(Mutex<BTreeMap<Key, (Duration, Measured)>>);

impl Answers {
    /// An answer that is not older than this.
    pub(super) fn get(&self, key: &Key, now: Duration, oldest: Duration) -> Option<Measured> {
        let answers = lock(&self.0);
        answers.get(key).filter(|(at, _)| now.saturating_sub(*at) < oldest).map(|(_, answer)| *answer)
    }
    pub(super) fn set(&self, key: Key, at: Duration, answer: Measured) {
        lock(&self.0).insert(key, (at, answer));
    }
    pub(super) fn forget(&self, key: &Key) {
        lock(&self.0).remove(key);
    }
}

#[derive(Default)]
pub(super) struct Segments(Mutex<BTreeSet<Segment>>);

impl Segments {
    pub(super) fn get(&self, segment: &Segment) -> bool {
        lock(&self.0).contains(segment)
    }
    pub(super) fn list(&self) -> BTreeSet<Segment> {
        lock(&self.0).clone()
    }
    pub(super) fn set(&self, segments: BTreeSet<Segment>) {
        *lock(&self.0) = segments;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
