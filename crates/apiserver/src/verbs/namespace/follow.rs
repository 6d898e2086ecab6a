//! Sees namespaces out.
//!
//! Requests help, but none may be needed: a client goes away, a request takes too long, a store does not answer. This
//! goes by what is stored alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_api::ObjectKey;
use futures::StreamExt;
use futures::future::OptionFuture;
use futures::stream::{BoxStream, SelectAll, select_all, unfold};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{RESOURCE, contained, leaving, sweep};
use crate::core::Core;
use crate::status::Status;
use crate::store::{Event, EventKind, Gone, Watcher};

/// After a failure of the store.
const RETRY: Duration = Duration::from_secs(1);
/// Longer than any request lasts: what came into a namespace too late is there by then. Also how long nothing is taken
/// for granted while a namespace waits.
const LATE: Duration = Duration::from_secs(120);

type Events = Result<Vec<Arc<Event>>, Gone>;

/// Empties namespaces that are being deleted and lets them go, until `stop`.
pub async fn follow(core: &Core, stop: CancellationToken) {
    let mut follower = Follower { core, late: BTreeMap::new() };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = follower.run() => {}
    }
}

struct Follower<'a> {
    core: &'a Core,
    /// Namespaces that went lately, and until when something may still come into them.
    late: BTreeMap<String, Instant>,
}

impl Follower<'_> {
    async fn run(&mut self) {
        let mut namespaces = None;
        loop {
            // From before the pass, so that nothing that happens during it is missed.
            let version = self.core.store.version();
            let watcher = match namespaces.take() {
                Some(watcher) => watcher,
                None => match self.core.store.watch(&Arc::from(RESOURCE.plural), version) {
                    Ok(watcher) => watcher,
                    Err(_) => {
                        sleep(RETRY).await;
                        continue;
                    }
                },
            };
            match self.pass().await {
                // A watcher that lost history is replaced.
                Ok(waiting) => namespaces = self.wait(version, watcher, &waiting).await,
                Err(status) => {
                    tracing::warn!(
                        why = status.message,
                        "a namespace that is being deleted is not empty yet; trying again"
                    );
                    sleep(RETRY).await;
                    namespaces = Some(watcher);
                }
            }
        }
    }

    /// Deletes all that can be deleted now. Returns in which namespaces something is left to wait for.
    async fn pass(&mut self) -> Result<BTreeSet<String>, Status> {
        let now = Instant::now();
        let key = |name: &String| ObjectKey::cluster(name);
        self.late.retain(|name, _| self.core.store.get(RESOURCE.plural, &key(name)).is_none());
        let mut waiting: BTreeSet<String> = leaving(self.core)?.into_iter().collect();
        for name in waiting.iter().chain(self.late.keys()) {
            sweep(self.core, name).await?;
        }
        self.late.retain(|_, until| *until > now);
        waiting.retain(|name| self.core.store.get(RESOURCE.plural, &key(name)).is_some());
        waiting.extend(self.late.keys().cloned());
        Ok(waiting)
    }

    /// Returns once there may be something to do, with the watcher of namespaces if it can go on.
    async fn wait(
        &mut self,
        version: u64,
        mut namespaces: Watcher,
        waiting: &BTreeSet<String>,
    ) -> Option<Watcher> {
        let concerns = |event: &Arc<Event>| {
            event.kind != EventKind::Modified && waiting.contains(&event.object.key.namespace)
        };
        let Ok(mut content) = content_events(self.core, version, waiting) else { return Some(namespaces) };
        let looked_again: OptionFuture<_> = (!waiting.is_empty()).then(|| sleep(LATE)).into();
        tokio::pin!(looked_again);
        loop {
            tokio::select! {
                biased;
                events = namespaces.next() => {
                    let events = events.ok()?;
                    let gone = events.iter().filter(|event| event.kind == EventKind::Deleted);
                    let until = Instant::now() + LATE;
                    self.late.extend(gone.map(|event| (event.object.key.name.clone(), until)));
                    return Some(namespaces);
                }
                Some(events) = content.next() => {
                    // Lost history is something that happened.
                    let quiet = events.is_ok_and(|events| !events.iter().any(concerns));
                    if !quiet {
                        return Some(namespaces);
                    }
                }
                Some(()) = &mut looked_again => return Some(namespaces),
            }
        }
    }
}

/// What happens to all that can be in a namespace; nothing if no namespace is waiting.
fn content_events<'a>(
    core: &Core,
    version: u64,
    waiting: &BTreeSet<String>,
) -> Result<SelectAll<BoxStream<'a, Events>>, Gone> {
    let kinds = if waiting.is_empty() { Vec::new() } else { contained(core) };
    let watchers: Result<Vec<Watcher>, Gone> =
        kinds.iter().map(|kind| core.store.watch(&kind.info().table, version)).collect();
    let stream = |watcher: Watcher| -> BoxStream<'a, Events> {
        Box::pin(unfold(watcher, |mut watcher| async move { Some((watcher.next().await, watcher)) }))
    };
    Ok(select_all(watchers?.into_iter().map(stream)))
}
