//! The watch and the queue of the protection of volumes. Upstream has no flags for it.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_api::{Meta, PersistentVolume};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Cache, Change, EffectError, Effects, Keyed, Ports, RunError, Step};

use super::world::{Action, Observed, Why};
use super::{act, decide, observe};

const COMPONENT: &str = "persistentvolume-protection-controller";
/// Volumes worked on at once; upstream's single worker makes mass deletion serial.
const WORKERS: usize = 32;

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports) -> Result<(), RunError> {
    let role = Arc::new(Protection { volumes: ports.informers.of(), effects: ports.effects(COMPONENT) });
    let queue = Queue::new(Backoff::CONTROLLER);
    let to = queue.clone();
    role.volumes.on_change(move |change: &Change<PersistentVolume>| {
        if let Some(volume) = &change.new {
            to.add(volume.name().to_owned());
        }
    });
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = role.volumes.synced() => {}
    }
    let work = move |name: String| {
        let role = role.clone();
        async move { reconcile(&*role, &name).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

struct Protection {
    volumes: Cache<PersistentVolume>,
    effects: Effects,
}

#[async_trait]
impl Keyed for Protection {
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, name: &String) -> Result<Option<Observed>, EffectError> {
        Ok(observe::observe(&self.volumes, name))
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        act::act(&self.effects, action, &seen).await
    }
}
