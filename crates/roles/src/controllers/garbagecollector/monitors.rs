//! One watch per kind, and a new discovery when kinds may have come or gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::{Client, Queue};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::graph::{Graph, Woken};
use super::kinds::{self, Kinds, Metadata};
use super::model::{Identity, Kind};

/// Pause after a failed list or watch.
const RETRY: Duration = Duration::from_millis(500);
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
    pub queue: Queue<Arc<Identity>>,
    graph: Mutex<Graph>,
    kinds: Mutex<Arc<Kinds>>,
    /// Objects with an owner of a kind that nobody served when they were looked at.
    unresolved: Mutex<BTreeSet<Arc<Identity>>>,
    /// How many kinds have not been listed yet; `None` before the first discovery.
    unlisted: watch::Sender<Option<usize>>,
    kinds_stale: Notify,
}

impl Shared {
    pub fn new(client: Client, queue: Queue<Arc<Identity>>) -> Arc<Self> {
        Arc::new(Self {
            client,
            queue,
            graph: Mutex::default(),
            kinds: Mutex::default(),
            unresolved: Mutex::default(),
            unlisted: watch::channel(None).0,
            kinds_stale: Notify::new(),
        })
    }

    pub fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether every kind has been listed.
    pub fn complete(&self) -> bool {
        *self.unlisted.borrow() == Some(0)
    }

    /// Waits until every kind has been listed.
    pub async fn completed(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.unlisted.subscribe().wait_for(|unlisted| *unlisted == Some(0)).await;
    }

    /// Remembers to look again when a kind comes.
    pub fn awaits_kind(&self, identity: &Arc<Identity>) {
        self.unresolved.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.clone());
    }

    pub fn wake(&self, woken: Woken) {
        woken.into_iter().for_each(|identity| self.queue.add(identity));
    }

    fn listed_one(&self) {
        self.unlisted.send_modify(|left| *left = left.map(|left| left.saturating_sub(1)));
        if self.complete() {
            // Whoever is to be let go waited for this.
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
    loop {
        let pause = match kinds::discover(&shared.client).await {
            Ok(kinds) => {
                if kinds != *shared.kinds() {
                    follow_all(&shared, &kinds, &mut running, &stop);
                    shared.learn(kinds);
                }
                again.next().copied()
            }
            Err(error) => {
                tracing::warn!(%error, "discovery failed, trying again");
                Some(RETRY)
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
    shared.unlisted.send_modify(|left| *left = Some(left.unwrap_or(0) + fresh.len()));
    for (table, kind) in fresh {
        let token = stop.child_token();
        running.insert(table.clone(), (kind.clone(), token.clone()));
        tokio::spawn(follow(shared.clone(), kind.clone(), token));
    }
}

/// Keeps the graph equal to the server for one kind.
async fn follow(shared: Arc<Shared>, kind: Arc<Kind>, stop: CancellationToken) {
    let config = watcher::Config::default().any_semantic();
    let mut events = Box::pin(watcher(kind.everywhere(&shared.client), config));
    let mut listed = None;
    let mut first = true;
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            None => break,
            Some(Ok(event)) => {
                let done = matches!(event, Event::InitDone);
                let settled = done || matches!(event, Event::Apply(_) | Event::Delete(_));
                let woken = take_in(&mut shared.graph(), &kind, event, &mut listed);
                shared.wake(woken);
                if done && std::mem::take(&mut first) {
                    shared.listed_one();
                } else if settled && kind.makes_kinds() {
                    shared.kinds_stale.notify_one();
                }
            }
            Some(Err(error)) => {
                tracing::warn!(kind = kind.kind, %error, "watch failed, trying again");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
    if first {
        shared.listed_one();
    }
    // Its objects are no longer seen; whether they are gone is for a live look to say.
    let woken = shared.graph().retain(&kind, &BTreeSet::new());
    shared.wake(woken);
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
