//! The watches and the queue. Upstream's flag names a file; here the certificate itself is handed over.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_api::{ConfigMap, Meta, Namespace};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Cache, Change, EffectError, Effects, Keyed, Ports, RunError, Step};

use super::world::{Action, Observed, Why};
use super::{act, decide, observe};

const COMPONENT: &str = "root-ca-certificate-publisher-controller";
/// Namespaces worked on at once.
const WORKERS: usize = 8;

/// Runs until `ports.stop`, then finishes what is in flight. `root` is the authority's certificate, PEM.
pub async fn run(ports: Ports, root: String) -> Result<(), RunError> {
    let role = Arc::new(Publisher {
        namespaces: ports.informers.of(),
        maps: ports.informers.of(),
        root: root.into(),
        effects: ports.effects(COMPONENT),
    });
    let queue = Queue::new(Backoff::CONTROLLER);
    let to = queue.clone();
    role.namespaces.on_change(move |change: &Change<Namespace>| {
        if let Some(namespace) = &change.new {
            to.add(namespace.name().to_owned());
        }
    });
    let to = queue.clone();
    role.maps.on_change(move |change: &Change<ConfigMap>| {
        if let Some(map) = change.latest().filter(|map| map.name() == act::NAME) {
            to.add(map.namespace().to_owned());
        }
    });
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = async { tokio::join!(role.namespaces.synced(), role.maps.synced()); } => {}
    }
    let work = move |name: String| {
        let role = role.clone();
        async move { reconcile(&*role, &name).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

struct Publisher {
    namespaces: Cache<Namespace>,
    maps: Cache<ConfigMap>,
    root: Arc<str>,
    effects: Effects,
}

#[async_trait]
impl Keyed for Publisher {
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, name: &String) -> Result<Option<Observed>, EffectError> {
        Ok(observe::observe(&self.namespaces, &self.maps, &self.root, name))
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        act::act(&self.effects, action, &seen).await
    }
}
