//! The role: watches of every kind. Upstream's one flag, `--concurrent-gc-syncs`, has its default.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_machinery::{Context, EffectError, Effects, Recorder, Role, RunError, Step, Told, Watches};

use tokio_util::sync::CancellationToken;

use super::absent::Absent;
use super::decide::decide;
use super::model::{Action, Identity, Observed, Why};
use super::monitors::{self, Shared};

/// How long the first lists, and those of a new leader, may take before work begins without them.
const START: Duration = Duration::from_secs(30);

pub struct Collector {
    pub(super) shared: Arc<Shared>,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) absent: Absent,
    told: Told<Arc<Identity>>,
    /// Ends the watches with the role.
    watching: CancellationToken,
}

#[async_trait]
impl Role for Collector {
    const NAME: &'static str = "garbage-collector-controller";
    /// Upstream's default.
    const WORKERS: usize = 20;
    type Settings = ();
    type Key = Arc<Identity>;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Arc<Identity>>, _: ()) -> Result<Self, RunError> {
        let shared =
            Shared::new(context.ports.client.clone(), context.ports.host.random.clone(), context.queue);
        let watching = context.ports.stop.child_token();
        tokio::spawn(monitors::run(shared.clone(), watching.clone()));
        Ok(Self {
            shared,
            effects: context.effects,
            recorder: context.recorder,
            absent: Absent::default(),
            told: Told::default(),
            watching,
        })
    }

    /// The kinds are only known to discovery, so none has a cache here.
    fn watch(&self, watches: &mut Watches<Self>) {
        let shared = self.shared.clone();
        watches.fresh(async move {
            let _ = tokio::time::timeout(START, shared.refreshed()).await;
        });
    }

    /// Before the first lists are complete, an owner that is there would have to be asked for. A kind that cannot be listed
    /// is waited for only by objects whose dependents it may hold.
    async fn begin(&self) -> Result<(), RunError> {
        let _ = tokio::time::timeout(START, self.shared.completed()).await;
        Ok(())
    }

    async fn observe(&self, key: &Arc<Identity>) -> Result<Option<Observed>, EffectError> {
        self.see(key).await
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
    fn waiting(&self, key: &Arc<Identity>, _: &Observed, why: &Why) {
        if let Why::UnknownKind { api_version, kind } = why {
            self.shared.awaits_kind(key, api_version, kind);
        }
        if let Why::InvalidNamespace(owner) = why
            && self.told.news(key, &why.to_string())
        {
            self.report(key, owner);
        }
    }
    async fn finish(&self) {
        self.watching.cancel();
    }
    fn settled(&self, key: &Arc<Identity>) {
        self.told.forget(key);
        self.shared.forget(key);
    }
}
