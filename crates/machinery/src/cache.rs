//! A shared, indexed copy of all objects of one kind, with read-your-writes.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bowline_api::{Meta, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::client::Object;
use crate::refresh::Refresh;

/// What happened to one object. Both sides are set for an update.
#[derive(Debug, Clone)]
pub struct Change<K> {
    pub old: Option<Arc<K>>,
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it is now, or as it last was.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Old and new, whichever exist: both name keys that may be concerned.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// What is called with each change, for as long as the first says so.
type Handler<K> = (Box<dyn Fn() -> bool + Send + Sync>, Box<dyn Fn(&Change<K>) + Send + Sync>);
type IndexFn<K> = fn(&K) -> Vec<String>;

/// The cache of one kind; clones share it.
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    state: RwLock<State<K>>,
    /// Serialises changes and their handlers, so that every handler sees them in one order.
    handlers: Mutex<Vec<Handler<K>>>,
    listed: AtomicBool,
    /// Wakes those who wait in the order in which they came, so that a simulation is the same each time; a watch channel
    /// does not.
    listed_now: Notify,
    /// Counts changes, for those who wait for a condition.
    changes: watch::Sender<u64>,
    refresh: Arc<Refresh>,
}

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    indexes: BTreeMap<&'static str, Index<K>>,
    /// Newest resourceVersion that the watch has delivered: anything older is already in here.
    seen: u64,
    /// UIDs of objects that we know to be deleted before the watch says so: older news of them is dropped.
    gone: BTreeMap<ObjectKey, String>,
    /// Versions that only our own writes tell of yet.
    unconfirmed: BTreeSet<(u64, ObjectKey)>,
}

struct Index<K> {
    values_of: IndexFn<K>,
    keys: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl<K: Object> Default for Cache<K> {
    fn default() -> Self {
        let state = State {
            objects: BTreeMap::new(),
            indexes: BTreeMap::new(),
            seen: 0,
            gone: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
        };
        let changes = watch::channel(0).0;
        let state = RwLock::new(state);
        Self {
            inner: Arc::new(Inner {
                state,
                handlers: Mutex::default(),
                listed: AtomicBool::default(),
                listed_now: Notify::new(),
                changes,
                refresh: Arc::default(),
            }),
        }
    }
}

impl<K: Object> Cache<K> {
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// A cluster-scoped object.
    pub fn named(&self, name: &str) -> Option<Arc<K>> {
        self.get(&ObjectKey::cluster(name))
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// Adds an index; adding the same name again is a no-op.
    pub fn index(&self, name: &'static str, values_of: IndexFn<K>) {
        let mut state = self.write();
        if state.indexes.contains_key(name) {
            return;
        }
        let mut keys: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (key, object) in &state.objects {
            values_of(object).into_iter().for_each(|value| {
                keys.entry(value).or_default().insert(key.clone());
            });
        }
        state.indexes.insert(name, Index { values_of, keys });
    }

    /// Objects that an index files under `value`, ordered by key. An index that was never added is empty.
    pub fn indexed(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let keys = state.indexes.get(index).and_then(|i| i.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// How many objects an index files under `value`, without touching them.
    pub fn indexed_len(&self, index: &str, value: &str) -> usize {
        let state = self.read();
        state.indexes.get(index).and_then(|i| i.keys.get(value)).map_or(0, BTreeSet::len)
    }

    /// Calls `handler` for each object there is now (as an addition) and for each later change.
    /// Handlers must be quick: they usually add a key to a queue.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.on_change_while(|| true, handler);
    }

    /// The same for a part that may end before the process: its handler is forgotten when another one comes.
    pub(crate) fn on_change_while(
        &self,
        lives: impl Fn() -> bool + Send + Sync + 'static,
        handler: impl Fn(&Change<K>) + Send + Sync + 'static,
    ) {
        let mut handlers = self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(lives, _)| lives());
        for object in self.list() {
            handler(&Change { old: None, new: Some(object) });
        }
        handlers.push((Box::new(lives), Box::new(handler)));
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        loop {
            let mut woken = pin!(self.inner.listed_now.notified());
            // From here on no call is missed; only then is looked.
            woken.as_mut().enable();
            if self.inner.listed.load(Ordering::SeqCst) {
                return;
            }
            woken.await;
        }
    }

    /// Waits until the cache holds what the store had when this was called, or later.
    pub async fn refreshed(&self) {
        self.inner.refresh.done().await;
    }

    pub(crate) fn refresh(&self) -> Arc<Refresh> {
        self.inner.refresh.clone()
    }

    fn listed(&self) {
        self.inner.listed.store(true, Ordering::SeqCst);
        self.inner.listed_now.notify_waiters();
    }

    /// Waits until `look` finds what it looks for. The caller sets the bound.
    pub async fn until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(found) = look(self) {
                return found;
            }
            // The sender lives in the cache itself, so this cannot fail while we hold it.
            let _ = changes.changed().await;
        }
    }

    /// Takes in the answer to a write, so that the next decision sees it before the watch brings it.
    pub fn note(&self, object: impl Into<Arc<K>>) {
        let object = object.into();
        let (key, version) = (object.key(), object.version());
        self.change(&key, Some(object), |state| {
            let news = version > state.seen;
            if news {
                state.unconfirmed.insert((version, key.clone()));
            }
            news
        });
    }

    /// Takes in the answer to a delete: the object as it was or, while finalizers hold it, as it now is.
    pub fn note_deletion(&self, object: impl Into<Arc<K>>) {
        let object = object.into();
        let held = object.meta().finalizers.as_ref().is_some_and(|f| !f.is_empty());
        let graceful = object.meta().deletion_grace_period_seconds.is_some_and(|s| s > 0);
        if held || graceful {
            self.note(object);
        } else {
            self.note_gone(&object);
        }
    }

    /// Takes in a delete that left nothing behind, so that the next decision no longer sees the object.
    pub fn note_gone(&self, object: &K) {
        let (key, uid) = (object.key(), object.uid());
        self.change(&key, None, |state| {
            let here = state.objects.get(&key).is_some_and(|cached| cached.uid() == uid);
            if here {
                state.gone.insert(key.clone(), uid.to_owned());
            }
            here
        });
    }

    /// Takes in a watch event.
    pub(crate) fn applied(&self, object: impl Into<Arc<K>>) {
        let object = object.into();
        let (key, version) = (object.key(), object.version());
        self.change(&key, Some(object), |state| {
            state.told(&key, version);
            true
        });
        self.drop_passed(version);
    }

    pub(crate) fn deleted(&self, object: &K) {
        let (key, version) = (object.key(), object.version());
        self.change(&key, None, |state| {
            state.told(&key, version);
            state.gone.remove(&key);
            // A successor of the same name that was noted already stays.
            state.objects.get(&key).is_none_or(|cached| cached.version() <= version)
        });
        self.drop_passed(version);
    }

    /// The watch tells of everything in order. What it has passed without a word was deleted before the list was made from
    /// which it began, after our own write had told of it.
    fn drop_passed(&self, version: u64) {
        let passed = || self.read().unconfirmed.first().filter(|(noted, _)| *noted < version).cloned();
        while let Some((noted, key)) = passed() {
            self.change(&key, None, |state| {
                state.unconfirmed.remove(&(noted, key.clone()));
                state.objects.get(&key).is_some_and(|cached| cached.version() == noted)
            });
        }
    }

    /// The watch has delivered everything up to this version.
    pub(crate) fn passed(&self, version: u64) {
        self.write().saw(version);
        self.drop_passed(version);
    }

    /// Takes in a complete list that was made at `version`: what is not in it is gone, unless it was written later.
    ///
    /// A list older than what was seen comes from a lagging API server. It is refused as a whole: what it lacks may have
    /// been created since, and what it has may be gone.
    #[must_use]
    pub(crate) fn replaced(&self, objects: Vec<K>, version: u64) -> bool {
        if version < self.read().seen {
            return false;
        }
        let listed: BTreeSet<ObjectKey> = objects.iter().map(Meta::key).collect();
        let missing = self.list().into_iter().map(|object| object.key()).filter(|key| !listed.contains(key));
        for key in missing {
            self.change(&key, None, |state| {
                state.objects.get(&key).is_some_and(|cached| cached.version() <= version)
            });
        }
        for object in objects {
            let (key, version) = (object.key(), object.version());
            self.change(&key, Some(Arc::new(object)), |state| {
                state.told(&key, version);
                true
            });
        }
        let mut state = self.write();
        state.saw(version);
        state.gone.retain(|key, _| listed.contains(key));
        drop(state);
        // Noted while the list was taken in, and not in it.
        self.drop_passed(version.saturating_add(1));
        self.listed();
        true
    }

    /// Takes in the answer to a question for one object that no watch tells of. `before` is the version that was here when
    /// it was asked: what was written since is not taken for deleted. True when the object is another than before.
    pub(crate) fn fetched(&self, key: &ObjectKey, found: Option<Arc<K>>, before: Option<u64>) -> bool {
        let version = |state: &State<K>| state.objects.get(key).map(|cached| cached.version());
        let (old, absent) = (version(&self.read()), found.is_none());
        self.change(key, found, |state| {
            state.unconfirmed.retain(|(_, noted)| noted != key);
            if absent {
                state.gone.remove(key);
            }
            !absent || version(state) == before
        });
        version(&self.read()) != old
    }

    /// The object is no longer asked for: an old copy must not be taken for it.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.change(key, None, |state| {
            state.unconfirmed.retain(|(_, noted)| noted != key);
            state.gone.remove(key);
            true
        });
    }

    /// No first list will come any more: whoever waits for it may go on, and finds that the process is to end.
    pub(crate) fn ended(&self) {
        self.listed();
        self.inner.refresh.end();
    }

    /// Applies one change, if it is `allowed`, and tells the handlers. Older versions than the cached one are dropped.
    ///
    /// Whether it is allowed is asked under the lock: the watch and the answers to our own writes come at the same time,
    /// and an answer that was new a moment ago must not bring back what has been deleted since.
    fn change(&self, key: &ObjectKey, new: Option<Arc<K>>, allowed: impl FnOnce(&mut State<K>) -> bool) {
        let handlers = self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let old = {
            let mut state = self.write();
            if !allowed(&mut state) {
                return;
            }
            if let Some(new) = &new
                && state.gone.get(key).is_some_and(|uid| uid == new.uid())
            {
                return;
            }
            let old = state.objects.get(key).cloned();
            if let (Some(old), Some(new)) = (&old, &new)
                && new.version() <= old.version()
            {
                return;
            }
            state.set(key, new.clone());
            old
        };
        if old.is_some() || new.is_some() {
            let change = Change { old, new };
            for (_, handler) in handlers.iter() {
                // The others hear of the change as well.
                if catch_unwind(AssertUnwindSafe(|| handler(&change))).is_err() {
                    tracing::error!(kind = %K::kind(&()), %key, "a handler panicked on a change, which is lost to it");
                }
            }
            self.inner.changes.send_modify(|count| *count += 1);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State<K>> {
        self.inner.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State<K>> {
        self.inner.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Meta> State<K> {
    /// The server has told of this version of an object, by itself.
    fn told(&mut self, key: &ObjectKey, version: u64) {
        self.saw(version);
        if let Some(noted) =
            self.objects.get(key).map(|cached| cached.version()).filter(|noted| *noted <= version)
        {
            self.unconfirmed.remove(&(noted, key.clone()));
        }
    }
}

impl<K> State<K> {
    fn saw(&mut self, version: u64) {
        self.seen = self.seen.max(version);
    }

    fn set(&mut self, key: &ObjectKey, new: Option<Arc<K>>) {
        let old = self.objects.get(key);
        // All are asked before anything is changed: an index that panics leaves the state as it was.
        let values = |object: Option<&Arc<K>>, index: &Index<K>| {
            object.map(|object| (index.values_of)(object)).unwrap_or_default()
        };
        let moves: Vec<(Vec<String>, Vec<String>)> =
            self.indexes.values().map(|index| (values(old, index), values(new.as_ref(), index))).collect();
        match new {
            Some(object) => self.objects.insert(key.clone(), object),
            None => self.objects.remove(key),
        };
        for (index, (left, joined)) in self.indexes.values_mut().zip(moves) {
            for value in left {
                if let Some(keys) = index.keys.get_mut(&value) {
                    keys.remove(key);
                    if keys.is_empty() {
                        index.keys.remove(&value);
                    }
                }
            }
            for value in joined {
                index.keys.entry(value).or_default().insert(key.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
