//! The last answers: caches that a restart fills again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::model::Usage;
use crate::kubelet::volumemanager::MountedVolume;

/// Clones share it.
#[derive(Clone, Default)]
pub struct Stats {
    volumes: Arc<Mutex<BTreeMap<String, Entry>>>,
}

#[derive(Clone, Default)]
struct Entry {
    due: Duration,
    answer: Option<Answer>,
}

/// What a driver said, and of what.
#[derive(Debug, Clone)]
pub struct Answer {
    pub at: Timestamp,
    pub volume: MountedVolume,
    pub usage: Usage,
}

impl Stats {
    /// Remembers when to ask of a volume that was not known before.
    pub(super) fn expect(&self, key: &str, due: Duration) {
        self.lock().entry(key.to_owned()).or_insert(Entry { due, answer: None });
    }

    pub(super) fn due(&self, key: &str) -> Option<Duration> {
        self.lock().get(key).map(|entry| entry.due)
    }

    pub(super) fn shows(&self, key: &str) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.answer.is_some())
    }

    /// `answer`: none when the driver did not say.
    pub(super) fn asked(&self, key: &str, due: Duration, answer: Option<Answer>) {
        self.lock().insert(key.to_owned(), Entry { due, answer });
    }

    pub(super) fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Keys of the volumes of a pod.
    pub(super) fn of_pod(&self, uid: &str) -> Vec<String> {
        let prefix = format!("{uid}/");
        self.lock().keys().filter(|key| key.starts_with(&prefix)).cloned().collect()
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// All that is known, in the order of pods and volumes.
    pub fn answers(&self) -> Vec<Answer> {
        self.lock().values().filter_map(|entry| entry.answer.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
