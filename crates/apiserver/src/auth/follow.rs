//! An index over some tables of the store, brought up to date before it is asked.
//!
//! Nothing runs in the background: whoever asks first after a write applies what happened since. So an answer is never
//! older than the store, and who never asks pays nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use bowline_api::ObjectKey;

use crate::store::{EventKind, Store, Stored, Watcher};

/// What is kept of the objects. `table` is the position in [`Index::TABLES`].
pub trait Index: Default {
    const TABLES: &'static [&'static str];
    /// An object is new or has changed.
    fn put(&mut self, table: usize, object: &Stored);
    fn remove(&mut self, table: usize, key: &ObjectKey);
}

pub struct Follower<I> {
    store: Store,
    /// The version of the store up to which the index is complete.
    seen: AtomicU64,
    /// A position in each table; empty before the first question, and after history was lost.
    watchers: Mutex<Vec<Watcher>>,
    index: RwLock<I>,
}

impl<I: Index> Follower<I> {
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            seen: AtomicU64::new(0),
            watchers: Mutex::default(),
            index: RwLock::new(I::default()),
        }
    }

    /// The index as of now.
    pub fn current(&self) -> RwLockReadGuard<'_, I> {
        let version = self.store.version();
        if self.seen.load(Ordering::Acquire) < version {
            self.catch_up(version);
        }
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn catch_up(&self, version: u64) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.seen.load(Ordering::Acquire) >= version {
            return;
        }
        if watchers.is_empty() || self.replay(&mut watchers).is_none() {
            *watchers = self.rebuild();
        }
        self.seen.store(version, Ordering::Release);
    }

    /// Applies what happened since the last time. `None` if some of it is no longer known.
    fn replay(&self, watchers: &mut [Watcher]) -> Option<()> {
        for (table, watcher) in watchers.iter_mut().enumerate() {
            loop {
                let events = watcher.ready().ok()?;
                if events.is_empty() {
                    break;
                }
                let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
                for event in events {
                    match event.kind {
                        EventKind::Deleted => index.remove(table, &event.object.key),
                        EventKind::Added | EventKind::Modified => index.put(table, &event.object),
                    }
                }
            }
        }
        Some(())
    }

    /// Reads everything anew. No watchers come back if history was cut in the meantime: then the next question
    /// after a write reads everything again.
    fn rebuild(&self) -> Vec<Watcher> {
        let mut fresh = I::default();
        let mut watchers = Vec::with_capacity(I::TABLES.len());
        for (table, resource) in I::TABLES.iter().enumerate() {
            let Ok(page) = self.store.page(resource, None, None, None, usize::MAX) else { continue };
            page.objects.iter().for_each(|object| fresh.put(table, object));
            watchers.extend(self.store.watch(&Arc::from(*resource), page.version));
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        if watchers.len() == I::TABLES.len() { watchers } else { Vec::new() }
    }
}
