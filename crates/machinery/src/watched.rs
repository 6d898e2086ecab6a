//! Single objects, each under a watch of its own: what a node may read of secrets and config maps, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::ObjectKey;
use futures::StreamExt;
use kube::Api;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event, watcher};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Object};

/// Pause after a failed list or watch.
const RETRY: Duration = Duration::from_millis(500);

/// What a watch says of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// Nothing yet.
    Unknown,
    Absent,
    Present(T),
}

type Handler = Box<dyn Fn(&str) + Send + Sync>;

/// Objects of one kind that somebody follows; clones share them.
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
    stop: CancellationToken,
    objects: Mutex<Objects<K>>,
    handlers: Mutex<Vec<Handler>>,
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
    pub fn new(client: Client, stop: CancellationToken) -> Self {
        let inner = Inner { client, stop, objects: Mutex::default(), handlers: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Calls `handler` with each follower of an object that changed.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(handler));
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
        tokio::spawn(follow(self.clone(), key.clone(), stop.clone()));
        Entry { followers: BTreeSet::new(), found: Found::Unknown, stop }
    }

    /// News from a watch, unless nobody wants it any more.
    fn saw(&self, key: &ObjectKey, found: Found<Arc<K>>, watch: &CancellationToken) {
        let followers = {
            let mut objects = self.objects();
            let Some(entry) = objects.entries.get_mut(key).filter(|_| !watch.is_cancelled()) else { return };
            entry.found = found;
            entry.followers.clone()
        };
        let handlers = self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for follower in &followers {
            handlers.iter().for_each(|handler| handler(follower));
        }
    }

    fn objects(&self) -> MutexGuard<'_, Objects<K>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// List, watch, and again from the start when the server says so.
async fn follow<K: Object + kube::Resource<Scope = NamespaceResourceScope>>(
    watched: Watched<K>,
    key: ObjectKey,
    stop: CancellationToken,
) {
    let api: Api<K> = Api::namespaced(watched.inner.client.clone(), &key.namespace);
    let only = watcher::Config::default().any_semantic().fields(&format!("metadata.name={}", key.name));
    let mut events = Box::pin(watcher(api, only));
    let mut listed = None;
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(Event::Apply(object))) => watched.saw(&key, Found::Present(Arc::new(object)), &stop),
            Some(Ok(Event::Delete(_))) => watched.saw(&key, Found::Absent, &stop),
            Some(Ok(Event::Init)) => listed = None,
            Some(Ok(Event::InitApply(object))) => listed = Some(Arc::new(object)),
            Some(Ok(Event::InitDone)) => {
                watched.saw(&key, listed.take().map_or(Found::Absent, Found::Present), &stop);
            }
            Some(Err(error)) => {
                tracing::warn!(kind = %K::kind(&()), object = %key, %error, "watch failed, trying again");
                tokio::time::sleep(RETRY).await;
            }
            None => return,
        }
    }
}
