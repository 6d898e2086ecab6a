//! The API servers of a cluster, on one disk that outlives them. A crash loses what the disk had not synced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::ObjectKey;
use bowline_apiserver::auth::{self, token::TokenSettings};
use bowline_apiserver::store::{AppendError, Backend, Feed, Loaded, Options, Record, Stored};
use bowline_apiserver::{Server, Store};
use bowline_host::{Clock, Random};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::prepared;

const ISSUER: &str = "https://kubernetes.default.svc";
/// Sets its draws apart from those of others with the same seed.
const STREAM: u64 = 0x5e_12fe;
/// Longest time by which the second server is behind the first.
const LAG_MAX: u64 = 3_000;
/// How long it takes until a crashed server runs again.
const RESTART: Duration = Duration::from_secs(4);

/// What is durable.
#[derive(Default)]
struct Platter {
    version: u64,
    objects: BTreeMap<(Arc<str>, ObjectKey), Arc<Stored>>,
    /// Counts the servers that have had this disk; only the last may write.
    owner: u64,
    /// The next append is not synced before the crash.
    failing: bool,
    /// The second server hears of every batch from here.
    feed: Option<mpsc::UnboundedSender<(Vec<Record>, u64)>>,
}

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Platter>>);

/// The disk as one server has it.
struct Mounted {
    disk: Disk,
    owner: u64,
}

impl Disk {
    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> Loaded {
        let platter = self.platter();
        let objects =
            platter.objects.iter().map(|((resource, _), object)| (resource.clone(), object.clone()));
        Loaded { version: platter.version, objects: objects.collect(), expiries: Vec::new() }
    }
}

impl Backend for Mounted {
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), AppendError> {
        let mut platter = self.disk.platter();
        if platter.owner != self.owner || platter.failing {
            return Err(AppendError { why: "the server died before the sync".into(), full: false });
        }
        for record in batch {
            let slot = (record.resource.clone(), record.key.clone());
            match &record.json {
                Some(json) => {
                    let stored = Stored::new(record.key.clone(), record.version, json.clone());
                    platter.objects.insert(slot, Arc::new(stored));
                }
                None => drop(platter.objects.remove(&slot)),
            }
        }
        platter.version = version;
        if let Some(feed) = &platter.feed {
            let _ = feed.send((batch.to_vec(), version));
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        Err("the server died before the sync".into())
    }
}

/// The servers of one life of the control plane.
#[derive(Clone)]
struct Running {
    servers: Vec<Server>,
    died: CancellationToken,
    up_at: Instant,
}

/// A server to talk to, until it dies.
#[derive(Clone)]
pub struct Reached {
    pub server: Server,
    pub died: CancellationToken,
}

pub struct ApiServers {
    disk: Disk,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// Whether a second server follows the first.
    two: bool,
    lags: Mutex<ChaCha12Rng>,
    running: Mutex<Option<Running>>,
}

#[expect(clippy::expect_used, reason = "a server that cannot start is a failed test")]
impl ApiServers {
    pub fn start(seed: u64, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Arc<Self> {
        let mut lags = ChaCha12Rng::seed_from_u64(seed ^ STREAM);
        let two = lags.next_u64().is_multiple_of(3);
        let disk = Disk::default();
        let Loaded { version, objects, .. } = prepared::CONTENTS.clone();
        let slot = |(resource, object): (Arc<str>, Arc<Stored>)| ((resource, object.key.clone()), object);
        let objects = objects.into_iter().map(slot).collect();
        *disk.platter() = Platter { version, objects, ..Platter::default() };
        let servers =
            Arc::new(Self { disk, clock, random, two, lags: Mutex::new(lags), running: Mutex::default() });
        servers.boot(Instant::now());
        servers
    }

    fn boot(&self, up_at: Instant) {
        let contents = self.disk.contents();
        let owner = {
            let mut platter = self.disk.platter();
            (platter.owner, platter.failing, platter.feed) = (platter.owner + 1, false, None);
            platter.owner
        };
        let backend = Mounted { disk: self.disk.clone(), owner };
        let store = Store::inline(Box::new(backend), contents, Options::default());
        let mut servers = vec![self.server(store.clone())];
        let died = CancellationToken::new();
        if self.two {
            let (second, feed) = store.follower(Options::default());
            let (sender, batches) = mpsc::unbounded_channel();
            self.disk.platter().feed = Some(sender);
            let lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner).clone();
            tokio::spawn(died.clone().run_until_cancelled_owned(follow(feed, batches, lags)));
            servers.push(self.server(second));
        }
        let running = Running { servers, died, up_at };
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }

    fn server(&self, store: Store) -> Server {
        let tokens = TokenSettings::ephemeral(ISSUER).expect("a key for tokens");
        let access = auth::Settings { tokens: Some(tokens), ..auth::Settings::default() };
        let (clock, random) = (self.clock.clone(), self.random.clone());
        Server::guarded(store, prepared::REGISTRY.clone(), clock, random, access)
    }

    fn running(&self) -> Running {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.clone().expect("servers were started")
    }

    /// One of the servers, by a number drawn for the request; when they run again, if they do not.
    pub fn reach(&self, draw: u64) -> Result<Reached, Instant> {
        let Running { servers, died, up_at } = self.running();
        if up_at > Instant::now() {
            return Err(up_at);
        }
        let at = (draw % servers.len() as u64) as usize;
        Ok(Reached { server: servers[at].clone(), died })
    }

    /// Whether a server may answer from the past.
    pub fn may_be_behind(&self) -> bool {
        self.two
    }

    /// The store that orders all writes.
    pub fn store(&self) -> Store {
        self.running().servers[0].store().clone()
    }

    /// From now on nothing is synced: what is written until the crash is lost by it.
    pub fn stop_syncing(&self) {
        self.disk.platter().failing = true;
    }

    /// All servers die. They start again a little later with what the disk has.
    pub fn crash(&self) {
        self.running().died.cancel();
        self.boot(Instant::now() + RESTART);
    }
}

/// Publishes each batch in order, some of them late.
async fn follow(feed: Feed, mut batches: mpsc::UnboundedReceiver<(Vec<Record>, u64)>, mut lags: ChaCha12Rng) {
    while let Some((records, version)) = batches.recv().await {
        let longest = if lags.next_u64().is_multiple_of(16) { LAG_MAX } else { 20 };
        tokio::time::sleep(Duration::from_millis(lags.next_u64() % longest)).await;
        // What is behind it has waited as long: it comes at once.
        let mut ready = vec![(records, version)];
        while let Ok(more) = batches.try_recv() {
            ready.push(more);
        }
        for (records, version) in ready {
            if feed.publish(&records, version).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_apiserver::store::{Change, Expect, Write};
    use bowline_host::fake;
    use serde_json::json;

    use super::*;

    fn started(two: bool) -> Arc<ApiServers> {
        let (host, _) = fake::host(1);
        let seed =
            (0..).find(|seed| ChaCha12Rng::seed_from_u64(seed ^ STREAM).next_u64().is_multiple_of(3) == two);
        ApiServers::start(seed.unwrap(), host.clock, host.random)
    }

    fn put(name: &str) -> Write {
        let object = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}});
        let key = ObjectKey::cluster(name);
        Write { resource: "nodes".into(), key, expect: Expect::Absent, change: Change::Put(object) }
    }

    fn has(store: &Store, name: &str) -> bool {
        store.get("nodes", &ObjectKey::cluster(name)).is_some()
    }

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    /// Goal: a crash loses what was not synced, nothing else, and what was not synced was never published.
    #[test]
    fn a_crash_loses_the_unsynced_tail_only() {
        in_runtime(async {
            let servers = started(false);
            let store = servers.store();
            store.write(put("synced")).await.unwrap();
            servers.stop_syncing();
            store.write(put("lost")).await.unwrap_err();
            assert!(!has(&store, "lost"));
            servers.crash();
            let Err(up_at) = servers.reach(0) else { unreachable!("the server answers while it is down") };
            tokio::time::sleep_until(up_at).await;
            let reached = servers.reach(0).map_err(|_| ()).unwrap();
            assert!(has(reached.server.store(), "synced") && !has(reached.server.store(), "lost"));
            store.write(put("late")).await.unwrap_err();
            servers.store().write(put("lost")).await.unwrap();
            assert!(has(&servers.store(), "lost") && !has(&servers.store(), "late"));
        });
    }

    /// Goal: the second server shows what was written some time later, and its own writes at once.
    #[test]
    fn the_second_server_lags() {
        in_runtime(async {
            let servers = started(true);
            let second = servers.reach(1).map_err(|_| ()).unwrap().server.store().clone();
            let written = servers.store().write(put("first")).await.unwrap();
            assert!(!has(&second, "first"));
            second.reached(written.version).await;
            assert!(has(&second, "first"));
            servers.store().write(put("again")).await.unwrap();
            second.fresh().await.unwrap();
            assert!(has(&second, "again"), "a read of the latest waits");
            let conflict = second.write(put("again")).await;
            assert!(conflict.is_err());
            second.write(put("second")).await.unwrap();
            assert!(has(&second, "second") && has(&servers.store(), "second"));
        });
    }
}
