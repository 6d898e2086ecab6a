//! Single objects that may only be read one at a time: what a node may see of claims and volumes.
//!
//! No watch is allowed there, so they are asked for: at once, soon again while they are not what is waited for, and rarely
//! afterwards. Upstream's kubelet asks ten times a second.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::{Meta, ObjectKey};
use bowline_host::Random;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::line::jitter;
use crate::client::{Client, Object, one_line, read};
use crate::listeners::Listeners;
use crate::ports::Ports;
use crate::watched::Found;

/// First pause while the object is not yet what is waited for; each one is twice as long.
const SOON: Duration = Duration::from_millis(100);
const SOON_MAX: Duration = Duration::from_secs(10);
/// Pause afterwards, stretched by up to its own length.
const RARELY: Duration = Duration::from_secs(60);

/// Objects of one kind, each asked for while it has followers; clones share them.
pub struct Fetched<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Fetched<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    client: Client,
    random: Arc<dyn Random>,
    stop: CancellationToken,
    cache: Cache<K>,
    settled: fn(&K) -> bool,
    objects: Mutex<Objects>,
    listeners: Listeners<str>,
    answers: Notify,
}

#[derive(Default)]
struct Objects {
    entries: BTreeMap<ObjectKey, Entry>,
    /// What each follower follows, and how many questions had begun when it came: their answers may be older than it is.
    followed: BTreeMap<String, BTreeMap<ObjectKey, u64>>,
}

struct Entry {
    followers: BTreeSet<String>,
    begun: u64,
    /// The last question that was answered.
    answered: u64,
    /// Cuts the pause short.
    again: Arc<Notify>,
    /// Ends the questions with the last follower.
    stop: CancellationToken,
}

impl<K: Object> Fetched<K> {
    /// `settled`: whether an object is what is usually waited for.
    pub fn new(ports: &Ports, settled: fn(&K) -> bool) -> Self {
        let inner = Inner {
            client: ports.client.clone(),
            random: ports.host.random.clone(),
            stop: ports.stop.clone(),
            cache: ports.informers.unwatched(),
            settled,
            objects: Mutex::default(),
            listeners: Listeners::default(),
            answers: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// All objects that are followed, as last seen.
    pub fn cache(&self) -> &Cache<K> {
        &self.inner.cache
    }

    /// Calls `handler` with each follower of an object that changed, or that is known for the first time since it came.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    /// The object as it was seen since `follower` follows it: its predecessor of the same name is not taken for it.
    pub fn get(&self, follower: &str, key: &ObjectKey) -> Found<Arc<K>> {
        if !self.objects().known(follower, key) {
            return Found::Unknown;
        }
        self.inner.cache.get(key).map_or(Found::Absent, Found::Present)
    }

    /// From now on `follower` follows these objects and no others.
    pub fn follow(&self, follower: &str, keys: &BTreeSet<ObjectKey>) {
        let dropped = {
            let mut objects = self.objects();
            let before = objects.followed.remove(follower).unwrap_or_default();
            let mut now = BTreeMap::new();
            for key in keys {
                let entry = objects.entries.entry(key.clone()).or_insert_with(|| self.start(key));
                let joined = before.get(key).copied();
                if joined.is_none() {
                    entry.followers.insert(follower.to_owned());
                    if entry.begun > 0 {
                        entry.again.notify_one();
                    }
                }
                now.insert(key.clone(), joined.unwrap_or(entry.begun));
            }
            if !now.is_empty() {
                objects.followed.insert(follower.to_owned(), now);
            }
            let left: Vec<ObjectKey> = before.into_keys().filter(|key| !keys.contains(key)).collect();
            left.into_iter().filter(|key| objects.leave(follower, key)).collect::<Vec<_>>()
        };
        // Outside of the lock: handlers of the cache may follow in turn.
        dropped.iter().for_each(|key| self.inner.cache.forget(key));
        // A follower that has left waits for nothing any more.
        self.inner.answers.notify_waiters();
    }

    /// Asks again at once, if anyone follows the object: it is known to have changed.
    pub fn refresh(&self, key: &ObjectKey) {
        if let Some(entry) = self.objects().entries.get(key) {
            entry.again.notify_one();
        }
    }

    /// Waits until everything that `follower` follows has been answered.
    pub async fn answered(&self, follower: &str) {
        loop {
            let mut woken = pin!(self.inner.answers.notified());
            woken.as_mut().enable();
            let all = {
                let objects = self.objects();
                let keys = objects.followed.get(follower);
                keys.is_none_or(|keys| keys.keys().all(|key| objects.known(follower, key)))
            };
            if all {
                return;
            }
            woken.await;
        }
    }

    fn start(&self, key: &ObjectKey) -> Entry {
        let (stop, again) = (self.inner.stop.child_token(), Arc::new(Notify::new()));
        let (fetched, key, ended, wake) = (self.clone(), key.clone(), stop.clone(), again.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = fetched.keep_asking(&key, &wake, &ended) => {}
            }
        });
        Entry { followers: BTreeSet::new(), begun: 0, answered: 0, again, stop }
    }

    async fn keep_asking(&self, key: &ObjectKey, again: &Notify, ended: &CancellationToken) {
        let mut soon = SOON;
        loop {
            let Some(number) = self.begin(key, ended) else { return };
            let before = self.inner.cache.get(key).map(|object| object.version());
            let pause = match self.ask(key).await {
                Ok(found) if found.as_deref().is_some_and(self.inner.settled) => {
                    self.saw(key, (number, ended), found, before);
                    soon = SOON;
                    RARELY + jitter(&*self.inner.random, RARELY)
                }
                Ok(found) => {
                    self.saw(key, (number, ended), found, before);
                    soon
                }
                Err(error) => {
                    let kind = K::kind(&());
                    let error = one_line(&error);
                    // Said once for each time that the server is away.
                    if soon == SOON {
                        tracing::warn!(%kind, %key, error, "read failed, trying again");
                    } else {
                        tracing::debug!(%kind, %key, error, "read failed, trying again");
                    }
                    // Nodes do not come back all at once.
                    soon + jitter(&*self.inner.random, soon)
                }
            };
            soon = (soon * 2).min(SOON_MAX);
            tokio::select! {
                biased;
                () = again.notified() => soon = SOON,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// An object that this node may not see is none for it: no pod of it has it, or no longer.
    async fn ask(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, kube::Error> {
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
        let request = kube::core::Request::new(K::url_path(&(), namespace));
        let request = request.get(&key.name, &Default::default()).map_err(kube::Error::BuildRequest)?;
        match read::object::<K>(&self.inner.client, request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The number of the question; none when its last follower has left.
    fn begin(&self, key: &ObjectKey, ended: &CancellationToken) -> Option<u64> {
        let mut objects = self.objects();
        let entry = objects.entries.get_mut(key).filter(|_| !ended.is_cancelled())?;
        entry.begun += 1;
        Some(entry.begun)
    }

    fn saw(
        &self,
        key: &ObjectKey,
        (number, ended): (u64, &CancellationToken),
        found: Option<Arc<K>>,
        before: Option<u64>,
    ) {
        if ended.is_cancelled() {
            return;
        }
        let changed = self.inner.cache.fetched(key, found, before);
        let followers: Vec<String> = {
            let mut objects = self.objects();
            // An answer for followers that have left is none for those who came since.
            let entry = objects.entries.get_mut(key).filter(|_| !ended.is_cancelled());
            let Some(entry) = entry else { return };
            let last = std::mem::replace(&mut entry.answered, number);
            let followers = entry.followers.clone();
            let came = |follower: &String| {
                objects.followed.get(follower).and_then(|keys| keys.get(key)).is_some_and(|at| *at >= last)
            };
            followers.into_iter().filter(|follower| changed || came(follower)).collect()
        };
        self.inner.answers.notify_waiters();
        followers.iter().for_each(|follower| self.inner.listeners.tell(follower));
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects {
    /// Whether a question has been answered that was asked after the follower came.
    fn known(&self, follower: &str, key: &ObjectKey) -> bool {
        let joined = self.followed.get(follower).and_then(|keys| keys.get(key));
        let answered = self.entries.get(key).map_or(0, |entry| entry.answered);
        joined.is_some_and(|joined| answered > *joined)
    }

    /// True when it was the last follower.
    fn leave(&mut self, follower: &str, key: &ObjectKey) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.followers.remove(follower);
        if !entry.followers.is_empty() {
            return false;
        }
        entry.stop.cancel();
        self.entries.remove(key);
        true
    }
}

#[cfg(test)]
mod tests;
