//! What people were last told about each key, so that a reason is an event once and not on each pass.
//!
//! Losing this costs a repeated event, nothing else; it is therefore kept in memory only.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last text per key. One entry per waiting object: whoever uses it forgets what is gone or settled.
pub struct Told<K> {
    last: Mutex<BTreeMap<K, String>>,
}

impl<K: Ord> Default for Told<K> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<K: Ord + Clone> Told<K> {
    /// Whether this text differs from the last one about `key`; it is the last one from now on.
    pub fn news(&self, key: &K, text: &str) -> bool {
        let mut last = self.lock();
        if last.get(key).is_some_and(|told| told == text) {
            return false;
        }
        last.insert(key.clone(), text.to_owned());
        true
    }

    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, String>> {
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
}
