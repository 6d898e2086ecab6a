//! The role: two watches. Upstream has no flags for it.

use async_trait::async_trait;
use bowline_api::{Meta, ObjectKey, PersistentVolumeClaim, Pod, pod};
use bowline_machinery::{Cache, Context, EffectError, Effects, Role, RunError, Step, Watches};

use super::decide::decide;
use super::live::Live;
use super::model::{Action, Observed, Why};
use crate::indexes;

pub struct Protection {
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) pods: Cache<Pod>,
    pub(super) live: Live,
    pub(super) effects: Effects,
}

#[async_trait]
impl Role for Protection {
    const NAME: &'static str = "persistentvolumeclaim-protection-controller";
    /// Also how many share one live list at best.
    const WORKERS: usize = 64;
    type Settings = ();
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<ObjectKey>, _: ()) -> Result<Self, RunError> {
        let (effects, informers) = (context.effects, &context.ports.informers);
        let pods = informers.of();
        indexes::pods(&pods);
        Ok(Self { claims: informers.of(), live: Live::new(effects.clone()), pods, effects })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.claims, |_, change, queue| {
            change.new.iter().for_each(|claim| queue.add(claim.key()));
        });
        // Pods change often, claims are rarely being deleted: only those are looked at again.
        watches.on(&self.pods, |role, change, queue| {
            for side in change.sides() {
                let claims = pod::claims(side).map(|(_, name)| ObjectKey::new(side.namespace(), name));
                let deleting = |key: &ObjectKey| role.claims.get(key).is_some_and(|claim| claim.deleting());
                claims.filter(deleting).for_each(|key| queue.add(key));
            }
        });
    }
    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        self.see(key).await
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
}
