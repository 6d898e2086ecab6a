//! Shared informers: at most one watch per kind and process, however many roles read it, and none for other kinds.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_host::Random;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::{Client, Object};
use crate::recovery::Recovery;
use crate::reflector::{Reflector, Scope, Target};

/// Hands out the caches of one process.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    random: Arc<dyn Random>,
    stop: CancellationToken,
    kinds: Arc<Mutex<Kinds>>,
    recovery: Recovery,
}

#[derive(Default)]
struct Kinds {
    caches: BTreeMap<TypeId, Box<dyn Any + Send>>,
    scopes: BTreeMap<TypeId, Scope>,
    standby: bool,
}

/// A kind was to be restricted whose watch runs already, with more rights than it should need.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("restrict the watch of {kind}: it was started before; restrict it before the first role asks for it")]
pub struct AlreadyWatched {
    pub kind: String,
}

impl Informers {
    pub fn new(client: Client, random: Arc<dyn Random>, stop: CancellationToken) -> Self {
        Self { client, random, stop, kinds: Arc::default(), recovery: Recovery::default() }
    }

    /// Watches only a part of a kind, for every role of this process: what a node may see, or one namespace. To be said
    /// before the first request for the kind.
    ///
    /// What a role writes outside the scope is still noted in the cache until the watch passes it.
    pub fn restrict<K: Object>(&self, scope: Scope) -> Result<(), AlreadyWatched> {
        let mut kinds = self.kinds();
        let same = kinds.scopes.get(&TypeId::of::<K>()) == Some(&scope);
        if kinds.caches.contains_key(&TypeId::of::<K>()) && !same {
            return Err(AlreadyWatched { kind: K::kind(&()).into_owned() });
        }
        kinds.scopes.insert(TypeId::of::<K>(), scope);
        Ok(())
    }

    /// For a process that waits for a lease: its first lists may come from a server's copy, since a new leader lists from
    /// the store. Other processes act on their first lists.
    pub(crate) fn stand_by(&self) {
        self.kinds().standby = true;
    }

    /// Calls `handler` whenever a watch gets through again after it failed, until it says that its part has ended.
    pub(crate) fn on_recovery(&self, handler: impl Fn() -> bool + Send + Sync + 'static) {
        self.recovery.on(handler);
    }

    /// The cache of a kind; the first request starts its watch.
    pub fn of<K: Object>(&self) -> Cache<K> {
        let mut kinds = self.kinds();
        if let Some(cache) = kinds.known() {
            return cache;
        }
        let cache = Cache::<K>::default();
        kinds.caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        let scope = kinds.scopes.get(&TypeId::of::<K>()).cloned().unwrap_or_default();
        let reflector = Reflector::new(self.client.clone(), scope, self.random.clone(), cache.clone())
            .standing_by(kinds.standby)
            .on_request(cache.refresh())
            .telling(self.recovery.clone());
        let (stop, ended) = (self.stop.clone(), cache.clone());
        tokio::spawn(async move {
            reflector.run(stop).await;
            ended.ended();
        });
        cache
    }

    /// The cache of a kind that is not watched: it holds what roles write or read one by one.
    pub fn unwatched<K: Object>(&self) -> Cache<K> {
        let mut kinds = self.kinds();
        if let Some(cache) = kinds.known() {
            return cache;
        }
        let cache = Cache::<K>::default();
        kinds.caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        // Nothing will be listed, so nothing is waited for.
        cache.ended();
        cache
    }

    /// The cache of a kind that a role has asked for; starts no watch.
    pub fn known<K: Object>(&self) -> Option<Cache<K>> {
        self.kinds().known()
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kinds {
    fn known<K: Object>(&self) -> Option<Cache<K>> {
        self.caches.get(&TypeId::of::<K>()).and_then(|any| any.downcast_ref::<Cache<K>>()).cloned()
    }
}

impl<K: Object> Target<K> for Cache<K> {
    fn replaced(&self, objects: Vec<K>, version: u64) -> bool {
        Cache::replaced(self, objects, version)
    }
    fn applied(&self, object: Arc<K>) {
        Cache::applied(self, object);
    }
    fn deleted(&self, object: Arc<K>) {
        Cache::deleted(self, &object);
    }
    fn passed(&self, version: u64) {
        Cache::passed(self, version);
    }
}
