//! Answers that are kept for a while.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Clients choose their tokens: what is kept of them has a bound.
const KEPT_MAX: usize = 4096;

/// By question; the time is the machine's uptime.
pub struct Answers<Q, A>(Mutex<BTreeMap<Q, (A, Duration)>>);

impl<Q, A> Default for Answers<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Ord, A: Clone> Answers<Q, A> {
    pub fn get<K: Ord + ?Sized>(&self, question: &K, now: Duration) -> Option<A>
    where
        Q: Borrow<K>,
    {
        let kept = self.lock();
        kept.get(question).filter(|(_, until)| now < *until).map(|(answer, _)| answer.clone())
    }

    pub fn keep(&self, question: Q, answer: A, now: Duration, time: Duration) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, (_, until)| now < *until);
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(question, (answer, now + time));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Q, (A, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
