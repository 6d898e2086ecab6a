//! Single objects, each under a watch of its own: what a node may read of secrets and config maps, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_api::{Meta, ObjectKey};
use bowline_host::Random;
use kube::core::NamespaceResourceScope;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Object};
use crate::listeners::Listeners;
use crate::reflector::{Reflector, Scope, Target};

/// What a watch says of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// Nothing yet.
    Unknown,
    Absent,
    Present(T),
}

/// Objects of one kind, each watched while it has followers; clones share them.
pub struct Watched<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Watched<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    client: Client,
    random: Arc<dyn Random>,
    stop: CancellationToken,
    objects: Mutex<Objects<K>>,
    listeners: Listeners<str>,
}

struct Objects<K> {
    entries: BTreeMap<ObjectKey, Entry<K>>,
    /// What each follower follows, so that its word costs no look at all the others'.
    followed: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), followed: BTreeMap::new() }
    }
}

struct Entry<K> {
    followers: BTreeSet<String>,
    found: Found<Arc<K>>,
    /// Ends the watch with its last follower.
    stop: CancellationToken,
}

impl<K: Object + kube::Resource<Scope = NamespaceResourceScope>> Watched<K> {
    pub fn new(client: Client, random: Arc<dyn Random>, stop: CancellationToken) -> Self {
        let inner =
            Inner { client, random, stop, objects: Mutex::default(), listeners: Listeners::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Calls `handler` with each follower of an object that changed.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    pub fn get(&self, key: &ObjectKey) -> Found<Arc<K>> {
        self.objects().entries.get(key).map_or(Found::Unknown, |entry| entry.found.clone())
    }

    /// From now on `follower` follows these objects and no others.
    pub fn follow(&self, follower: &str, keys: &BTreeSet<ObjectKey>) {
        let mut objects = self.objects();
        let before = match keys.is_empty() {
            true => objects.followed.remove(follower).unwrap_or_default(),
            false => objects.followed.insert(follower.to_owned(), keys.clone()).unwrap_or_default(),
        };
        for key in before.difference(keys) {
            let Some(entry) = objects.entries.get_mut(key) else { continue };
            entry.followers.remove(follower);
            if entry.followers.is_empty() {
                entry.stop.cancel();
                objects.entries.remove(key);
            }
        }
        for key in keys.difference(&before) {
            let entry = objects.entries.entry(key.clone()).or_insert_with(|| self.watch(key));
            entry.followers.insert(follower.to_owned());
        }
    }

    fn watch(&self, key: &ObjectKey) -> Entry<K> {
        let stop = self.inner.stop.child_token();
        let scope = Scope {
            namespace: Some(key.namespace.clone()),
            fields: Some(format!("metadata.name={}", key.name)),
            labels: None,
        };
        let one =
            One { watched: self.clone(), key: key.clone(), stop: stop.clone(), newest: AtomicU64::new(0) };
        let reflector = Reflector::new(self.inner.client.clone(), scope, self.inner.random.clone(), one);
        tokio::spawn(reflector.run(stop.clone()));
        Entry { followers: BTreeSet::new(), found: Found::Unknown, stop }
    }

    /// News from a watch, unless its last follower has left.
    fn saw(&self, key: &ObjectKey, found: Found<Arc<K>>, watch: &CancellationToken) {
        let followers = {
            let mut objects = self.objects();
            let Some(entry) = objects.entries.get_mut(key).filter(|_| !watch.is_cancelled()) else { return };
            entry.found = found;
            entry.followers.clone()
        };
        followers.iter().for_each(|follower| self.inner.listeners.tell(follower));
    }

    fn objects(&self) -> MutexGuard<'_, Objects<K>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the watch of one object says.
struct One<K> {
    watched: Watched<K>,
    key: ObjectKey,
    stop: CancellationToken,
    /// Newest version seen: a list older than that says nothing.
    newest: AtomicU64,
}

impl<K: Object + kube::Resource<Scope = NamespaceResourceScope>> One<K> {
    fn saw(&self, found: Found<Arc<K>>, version: u64) {
        self.newest.fetch_max(version, Ordering::SeqCst);
        self.watched.saw(&self.key, found, &self.stop);
    }
}

impl<K: Object + kube::Resource<Scope = NamespaceResourceScope>> Target<K> for One<K> {
    fn replaced(&self, objects: Vec<K>, version: u64) -> bool {
        if version < self.newest.load(Ordering::SeqCst) {
            return false;
        }
        let found = objects.into_iter().find(|object| object.key() == self.key);
        self.saw(found.map_or(Found::Absent, |object| Found::Present(Arc::new(object))), version);
        true
    }
    fn applied(&self, object: Arc<K>) {
        let version = object.version();
        self.saw(Found::Present(object), version);
    }
    fn deleted(&self, object: Arc<K>) {
        self.saw(Found::Absent, object.version());
    }
    fn passed(&self, version: u64) {
        self.newest.fetch_max(version, Ordering::SeqCst);
    }
}
