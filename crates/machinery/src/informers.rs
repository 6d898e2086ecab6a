//! Shared informers: at most one watch per kind and process, however many roles read it.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::{Client, Object};

/// Pause after a failed list or watch.
const RETRY: Duration = Duration::from_millis(500);

/// Hands out the caches of one process.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    stop: CancellationToken,
    caches: Arc<Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>>>,
}

impl Informers {
    pub fn new(client: Client, stop: CancellationToken) -> Self {
        Self { client, stop, caches: Arc::default() }
    }

    /// The cache of a kind; the first request starts its watch.
    pub fn of<K: Object>(&self) -> Cache<K> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let known = caches.get(&TypeId::of::<K>()).and_then(|any| any.downcast_ref::<Cache<K>>());
        if let Some(cache) = known {
            return cache.clone();
        }
        let cache = Cache::<K>::default();
        caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        tokio::spawn(follow(Api::all(self.client.clone()), cache.clone(), self.stop.clone()));
        cache
    }
}

/// Keeps a cache equal to the server: list, watch, and again from the start when the server says so.
async fn follow<K: Object>(api: Api<K>, cache: Cache<K>, stop: CancellationToken) {
    let mut events = Box::pin(watcher(api, watcher::Config::default().any_semantic()));
    let mut listed = Vec::new();
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return cache.ended(),
            event = events.next() => event,
        };
        match event {
            Some(Ok(Event::Apply(object))) => cache.applied(object),
            Some(Ok(Event::Delete(object))) => cache.deleted(&object),
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(object))) => listed.push(object),
            Some(Ok(Event::InitDone)) => cache.replaced(std::mem::take(&mut listed)),
            Some(Err(error)) => {
                tracing::warn!(kind = %K::kind(&()), error = %error, "watch failed, trying again");
                tokio::time::sleep(RETRY).await;
            }
            None => return,
        }
    }
}
