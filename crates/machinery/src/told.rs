//! What people were last told about each key, so that a reason is an event once and not on each pass.
//!
//! An API server forgets events after an hour, unless they are written again. A reason that still holds is therefore news
//! again every half hour, and `kubectl describe` shows it for as long as the object waits. The pass that repeats it has to
//! come from the queue: the runner enqueues a waiting key again after `REPEAT`.
//!
//! Losing this costs a repeated event, nothing else; it is therefore kept in memory only.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Half of the time that upstream's API server keeps events by default.
pub const REPEAT: Duration = Duration::from_secs(30 * 60);

/// The last text per key. One entry per waiting object: the role forgets what is gone or settled.
pub struct Told<K> {
    last: Mutex<BTreeMap<K, (String, Instant)>>,
}

impl<K: Ord> Default for Told<K> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<K: Ord + Clone> Told<K> {
    /// Whether this text differs from the last one about `key`, or that was told too long ago; it is the last one from now
    /// on.
    pub fn news(&self, key: &K, text: &str) -> bool {
        let mut last = self.lock();
        if last.get(key).is_some_and(|(told, at)| told == text && at.elapsed() < REPEAT) {
            return false;
        }
        last.insert(key.clone(), (text.to_owned(), Instant::now()));
        true
    }

    /// The same for a reason that was told elsewhere when it was first seen: only its repetition is news.
    pub fn repeats(&self, key: &K, text: &str) -> bool {
        let known = self.lock().get(key).is_some_and(|(told, _)| told == text);
        self.news(key, text) && known
    }

    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, (String, Instant)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once_until_it_changes_or_is_forgotten() {
        let told = Told::default();
        assert!(told.news(&"a", "waiting for b"));
        assert!(!told.news(&"a", "waiting for b"));
        assert!(told.news(&"c", "waiting for b"), "another key");
        assert!(told.news(&"a", "waiting for d"));
        told.forget(&"a");
        assert!(told.news(&"a", "waiting for d"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_that_holds_is_news_again_before_the_api_server_forgets_its_event() {
        let told = Told::default();
        assert!(told.news(&"a", "waiting for b"));
        tokio::time::advance(REPEAT - Duration::from_secs(1)).await;
        assert!(!told.news(&"a", "waiting for b"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(told.news(&"a", "waiting for b"));
        assert!(!told.news(&"a", "waiting for b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_that_was_told_elsewhere_is_only_repeated() {
        let told = Told::default();
        assert!(!told.repeats(&"a", "no node"));
        tokio::time::advance(REPEAT).await;
        assert!(told.repeats(&"a", "no node"));
        assert!(!told.repeats(&"a", "no node"));
        assert!(!told.repeats(&"a", "another reason"));
    }
}
