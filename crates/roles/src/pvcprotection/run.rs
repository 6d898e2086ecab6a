//! The watches and the queue of the protection of claims. Upstream has no flags for it.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_api::{Meta, ObjectKey, PersistentVolumeClaim, Pod, pod};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Change, EffectError, Effects, Keyed, Ports, RunError, Step};

use super::live::Live;
use super::observe::Sight;
use super::world::{Action, Observed, Why};
use super::{act, decide};
use crate::indexes;

const COMPONENT: &str = "persistentvolumeclaim-protection-controller";
/// Claims worked on at once; also how many share one live list at best.
const WORKERS: usize = 64;

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports) -> Result<(), RunError> {
    let effects = ports.effects(COMPONENT);
    let pods = ports.informers.of();
    let live = Live::new(effects.clone(), pods.clone());
    let sight = Sight { claims: ports.informers.of(), pods, live };
    indexes::pods(&sight.pods);
    let role = Arc::new(Protection { sight, effects });
    let queue = Queue::new(Backoff::CONTROLLER);
    wire(&role.sight, &queue);
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = role.sight.synced() => {}
    }
    let work = move |key: ObjectKey| {
        let role = role.clone();
        async move { reconcile(&*role, &key).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

fn wire(sight: &Sight, queue: &Queue<ObjectKey>) {
    let to = queue.clone();
    sight.claims.on_change(move |change: &Change<PersistentVolumeClaim>| {
        if let Some(claim) = &change.new {
            to.add(claim.key());
        }
    });
    // Pods change often, claims are rarely being deleted: only those are looked at again.
    let (to, claims) = (queue.clone(), sight.claims.clone());
    sight.pods.on_change(move |change: &Change<Pod>| {
        for side in change.sides() {
            for (_, name) in pod::claims(side) {
                let key = ObjectKey::new(side.namespace(), name);
                if claims.get(&key).is_some_and(|claim| claim.deleting()) {
                    to.add(key);
                }
            }
        }
    });
}

struct Protection {
    sight: Sight,
    effects: Effects,
}

#[async_trait]
impl Keyed for Protection {
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        self.sight.observe(key).await
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        act::act(&self.effects, action, &seen).await
    }
}
