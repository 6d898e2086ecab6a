//! The watches and the queue. Upstream's flags are about its own back-off.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_api::{Meta, Namespace, ServiceAccount};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Cache, Change, EffectError, Effects, Keyed, Ports, RunError, Step};

use super::world::{Action, Observed, Why};
use super::{act, decide, observe};

const COMPONENT: &str = "serviceaccount-controller";
/// Namespaces worked on at once.
const WORKERS: usize = 8;

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports) -> Result<(), RunError> {
    let role = Arc::new(Accounts {
        namespaces: ports.informers.of(),
        accounts: ports.informers.of(),
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
    role.accounts.on_change(move |change: &Change<ServiceAccount>| {
        // Only one that went makes work.
        let gone = change.old.as_ref().filter(|account| change.new.is_none() && account.name() == act::NAME);
        if let Some(account) = gone {
            to.add(account.namespace().to_owned());
        }
    });
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = async { tokio::join!(role.namespaces.synced(), role.accounts.synced()); } => {}
    }
    let work = move |name: String| {
        let role = role.clone();
        async move { reconcile(&*role, &name).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

struct Accounts {
    namespaces: Cache<Namespace>,
    accounts: Cache<ServiceAccount>,
    effects: Effects,
}

#[async_trait]
impl Keyed for Accounts {
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, name: &String) -> Result<Option<Observed>, EffectError> {
        Ok(observe::observe(&self.namespaces, &self.accounts, name))
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        act::act(&self.effects, action, &seen).await
    }
}
