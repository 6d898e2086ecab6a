//! One watch per kind, and a new discovery when kinds may have come or gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_host::Random;
use bowline_machinery::backoff::Backoff;
use bowline_machinery::{Client, Queue};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::graph::{Graph, Woken};
use super::kinds::{self, Kinds, Metadata};
use super::lists::Lists;
use super::model::{Identity, Kind};

/// A definition is stored before its kind is served: after a change the server is asked again after each of these.
const AGAIN: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
];

/// The watches, by group and plural of their kind.
type Running = BTreeMap<(String, String), (Arc<Kind>, CancellationToken)>;

/// What the watches know; shared by them and by the workers.
pub(super) struct Shared {
    pub client: Client,
    random: Arc<dyn Random>,
    pub queue: Queue<Arc<Identity>>,
    graph: Mutex<Graph>,
    kinds: Mutex<Arc<Kinds>>,
    /// Objects with an owner of a kind that nobody served when they were looked at.
    unresolved: Mutex<BTreeSet<Arc<Identity>>>,
    lists: Lists,
    kinds_stale: Notify,
}

impl Shared {
    pub fn new(client: Client, random: Arc<dyn Random>, queue: Queue<Arc<Identity>>) -> Arc<Self> {
        Arc::new(Self {
            client,
            random,
            queue,
            graph: Mutex::default(),
            kinds: Mutex::default(),
            unresolved: Mutex::default(),
            lists: Lists::default(),
            kinds_stale: Notify::new(),
        })
    }

    pub fn look<T>(&self, look: impl FnOnce(&Graph) -> T) -> T {
        look(&self.graph())
    }

    pub fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether every kind has been listed.
    pub fn complete(&self) -> bool {
        self.lists.complete()
    }

    /// Waits until every kind has been listed.
    pub async fn completed(&self) {
        self.lists.completed().await;
    }

    /// Lists every kind again and waits until that is done: watches may lag behind what the leader before did last.
    pub async fn refreshed(&self) {
        self.lists.ask();
        self.completed().await;
    }

    /// Remembers to look again when a kind comes; one that has come since it was looked for is no longer waited for.
    pub fn awaits_kind(&self, identity: &Arc<Identity>, api_version: &str, kind: &str) {
        self.unresolved.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.clone());
        if self.kinds().find(api_version, kind).is_some() {
            self.queue.add(identity.clone());
        }
    }

    /// An object that is gone waits for no kind.
    pub fn forget(&self, identity: &Arc<Identity>) {
        if self.graph().get(&identity.uid).is_none() {
            self.unresolved.lock().unwrap_or_else(PoisonError::into_inner).remove(identity);
        }
    }

    pub fn wake(&self, woken: Woken) {
        woken.into_iter().for_each(|identity| self.queue.add(identity));
    }

    /// What is to be let go has waited for the lists to be complete.
    fn wake_waiting(&self, complete: bool) {
        if complete {
            let waiting = self.graph().waiting_all();
            self.wake(waiting);
        }
    }

    fn learn(&self, kinds: Kinds) {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds);
        let again = std::mem::take(&mut *self.unresolved.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake(again.into_iter().collect());
    }
}

/// Keeps a watch on every collectable kind until `stop`.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut running = Running::new();
    let mut again = [].iter();
    let mut failures = Backoff::new(shared.random.clone());
    loop {
        let pause = match kinds::discover(&shared.client, &shared.kinds()).await {
            Ok(kinds) => {
                if kinds != *shared.kinds() {
                    follow_all(&shared, &kinds, &mut running, &stop);
                    shared.learn(kinds);
                }
                again.next().copied()
            }
            Err(error) => {
                let pause = failures.failed();
                tracing::warn!(%error, ?pause, "discovery failed, trying again");
                Some(pause)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.kinds_stale.notified() => again = AGAIN.iter(),
            () = after(pause) => {}
        }
    }
}

/// Without a delay nothing is left to wait for but news.
async fn after(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}

fn follow_all(shared: &Arc<Shared>, kinds: &Kinds, running: &mut Running, stop: &CancellationToken) {
    let stays = |table: &(String, String), kind: &Arc<Kind>| {
        kinds.collectable.get(table).is_some_and(|now| now == kind)
    };
    running.retain(|table, (kind, token)| {
        let stays = stays(table, kind);
        if !stays {
            token.cancel();
        }
        stays
    });
    let fresh: Vec<_> = kinds.collectable.iter().filter(|(table, _)| !running.contains_key(*table)).collect();
    if !kinds.silent.is_empty() {
        let groups = &kinds.silent;
        tracing::warn!(
            ?groups,
            "API groups do not answer; owners that orphan their dependents wait for them"
        );
    }
    let complete = shared.lists.follow(kinds.collectable.values().cloned(), !kinds.silent.is_empty());
    shared.wake_waiting(complete);
    for (table, kind) in fresh {
        let token = stop.child_token();
        running.insert(table.clone(), (kind.clone(), token.clone()));
        tokio::spawn(follow(shared.clone(), kind.clone(), token));
    }
}

/// Keeps the graph equal to the server for one kind, beginning with a list whenever one is asked for.
async fn follow(shared: Arc<Shared>, kind: Arc<Kind>, stop: CancellationToken) {
    let mut failures = Backoff::new(shared.random.clone());
    let mut first = true;
    while !stop.is_cancelled() {
        let request = shared.lists.asked();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            // Also out of a pause: a new leader does not wait for those of its time as a standby.
            () = shared.lists.asked_after(request) => {}
            () = list_and_watch(&shared, &kind, request, &mut first, &mut failures) => {}
        }
    }
    // Its objects are no longer seen; whether they are gone is for a live look to say.
    let woken = shared.graph().retain(&kind, &BTreeSet::new());
    shared.wake(woken);
}

/// The first list of kinds brings none that discovery has not just told of; a later one may.
async fn list_and_watch(
    shared: &Shared,
    kind: &Arc<Kind>,
    request: u64,
    first: &mut bool,
    failures: &mut Backoff,
) {
    // Lists come from the store: what a server's old copy lacks would count as gone.
    let config = watcher::Config::default();
    let mut events = Box::pin(watcher(kind.everywhere(&shared.client), config));
    let mut listed = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let done = matches!(event, Event::InitDone);
                let settled = done || matches!(event, Event::Apply(_) | Event::Delete(_));
                let woken = take_in(&mut shared.graph(), kind, event, &mut listed);
                shared.wake(woken);
                if done {
                    shared.wake_waiting(shared.lists.listed(kind, request));
                }
                if settled && kind.makes_kinds() && !(done && std::mem::take(first)) {
                    shared.kinds_stale.notify_one();
                }
            }
            Err(error) => {
                let pause = failures.failed();
                tracing::warn!(kind = kind.kind, %error, ?pause, "watch failed, trying again");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn take_in(
    graph: &mut Graph,
    kind: &Arc<Kind>,
    event: Event<Metadata>,
    listed: &mut Option<BTreeSet<Arc<str>>>,
) -> Woken {
    match event {
        Event::Init => {
            *listed = Some(BTreeSet::new());
            Woken::new()
        }
        Event::InitApply(object) => {
            let Some(node) = kinds::node(kind, object.metadata) else { return Woken::new() };
            listed.get_or_insert_default().insert(node.identity.uid.clone());
            graph.put(node)
        }
        Event::InitDone => graph.retain(kind, &listed.take().unwrap_or_default()),
        Event::Apply(object) => {
            kinds::node(kind, object.metadata).map(|node| graph.put(node)).unwrap_or_default()
        }
        Event::Delete(object) => object.metadata.uid.map(|uid| graph.remove(&uid)).unwrap_or_default(),
    }
}
