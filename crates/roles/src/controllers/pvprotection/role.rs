//! The role: one watch. Upstream has no flags for it.

use async_trait::async_trait;
use bowline_api::{Meta, PersistentVolume};
use bowline_machinery::{Cache, Context, EffectError, Effects, Role, RunError, Step, Watches};

use super::decide::decide;
use super::model::{Action, Observed, Why};

pub struct Protection {
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) effects: Effects,
}

#[async_trait]
impl Role for Protection {
    const NAME: &'static str = "persistentvolume-protection-controller";
    /// Upstream's single worker makes mass deletion serial.
    const WORKERS: usize = 32;
    type Settings = ();
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, _: ()) -> Result<Self, RunError> {
        Ok(Self { volumes: context.ports.informers.of(), effects: context.effects })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.volumes, |_, change, queue| {
            change.new.iter().for_each(|volume| queue.add(volume.name().to_owned()));
        });
    }
    async fn observe(&self, name: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(name))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
}
