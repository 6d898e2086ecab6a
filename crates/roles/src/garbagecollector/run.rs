//! The watches and the queue of the garbage collector. Upstream's one flag, `--concurrent-gc-syncs`, has its default.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{EffectError, Keyed, Ports, RunError, Step, Told};

use super::act::Hands;
use super::decide::decide;
use super::monitors::{self, Shared};
use super::observe::Sight;
use super::world::{Action, Identity, Observed, Why};

const COMPONENT: &str = "garbage-collector-controller";
/// Upstream's default.
const WORKERS: usize = 20;
/// How long the first lists may take before work begins without them.
const START: Duration = Duration::from_secs(30);

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports) -> Result<(), RunError> {
    let queue = Queue::new(Backoff::CONTROLLER);
    let shared = Shared::new(ports.client.clone(), queue.clone());
    let hands = Hands {
        shared: shared.clone(),
        effects: ports.effects(COMPONENT),
        recorder: ports.recorder(COMPONENT),
    };
    let role = Arc::new(Collector { sight: Sight::new(shared.clone()), hands, told: Told::default() });
    let watching = tokio::spawn(monitors::run(shared.clone(), ports.stop.clone()));
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        // Before this an owner that is there would have to be asked for; a kind that cannot be listed is not waited
        // for, other than by those whose dependents it may hold.
        _ = tokio::time::timeout(START, shared.completed()) => {}
    }
    let work = move |key: Arc<Identity>| {
        let role = role.clone();
        async move { reconcile(&*role, &key).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    watching.await.map_err(|error| RunError::Refused(format!("the watches of {COMPONENT} ended: {error}")))
}

struct Collector {
    sight: Sight,
    hands: Hands,
    told: Told<Arc<Identity>>,
}

#[async_trait]
impl Keyed for Collector {
    type Key = Arc<Identity>;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, key: &Arc<Identity>) -> Result<Option<Observed>, EffectError> {
        let seen = self.sight.observe(key).await?;
        if seen.is_none() {
            self.told.forget(key);
        }
        Ok(seen)
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.hands.perform(action, &seen).await
    }
    fn waiting(&self, key: &Arc<Identity>, _: &Observed, why: &Why) {
        if let Why::InvalidNamespace(owner) = why
            && self.told.news(key, &why.to_string())
        {
            self.hands.report(key, owner);
        }
    }
}
