//! The role: caches, watches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::expansion::{current_attributes_class, modify_status, modify_target};
use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass, volume};
use bowline_machinery::csi::Driver;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Ports, Queue, Recorder, Role};
use bowline_machinery::{RunError, Sidecar, Step, Told, Watches};

use super::super::memory::Memory;
use super::super::{Flags, NAME};
use super::act::FAILED;
use super::decide::decide;
use super::memory::Record;
use super::model::{Action, Observed, Settings, Why};
use crate::indexes;

/// The role, as its steps see it.
pub struct Modifier {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    /// Its longest pause is also how long a class that cannot be had rests.
    pub(super) backoff: Backoff,
    pub(super) settings: Arc<Settings>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) classes: Cache<VolumeAttributesClass>,
    pub(super) memory: Memory<Record>,
    told: Told<ObjectKey>,
}

#[async_trait]
impl Role for Modifier {
    const NAME: &'static str = "external-resizer-modify";
    const COMPONENT: &'static str = NAME;
    /// Upstream's default is 10.
    const WORKERS: usize = 64;
    type Settings = (Sidecar, Flags);
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(
        context: Context<ObjectKey>,
        (sidecar, flags): (Sidecar, Flags),
    ) -> Result<Self, RunError> {
        let Context { ports, effects, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        let informers = &ports.informers;
        let settings =
            Settings { driver: identity.name.clone(), extra_metadata: flags.extra_modify_metadata };
        let role = Self {
            effects: effects.measured(&ports.metrics, &identity.name),
            recorder: ports.recorder(format!("{NAME} {}", identity.name)),
            settings: Arc::new(settings),
            claims: informers.of(),
            volumes: informers.of(),
            classes: informers.of(),
            memory: Memory::default(),
            told: Told::default(),
            ports,
            driver,
            timeout,
            backoff,
        };
        indexes::claims_to_bind(&role.claims);
        indexes::claims_to_modify(&role.claims);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches
            .on(&self.claims, Self::claim_changed)
            .on(&self.volumes, Self::volume_changed)
            .on(&self.classes, Self::class_changed);
    }
    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(key))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, key: &ObjectKey, seen: &Observed, why: &Why) {
        let text = why.to_string();
        if matches!(why, Why::ClassMissing(_)) && self.told.news(key, &text) {
            self.recorder.warning(seen.claim.as_ref(), FAILED, text);
        }
    }
    fn settled(&self, key: &ObjectKey) {
        self.told.forget(key);
        match self.claims.get(key) {
            Some(_) => self.memory.change_named(key, |record| record.outcome = None),
            None => self.memory.forget(key),
        }
    }
    /// A class that cannot be had is tried again after a while.
    fn look_again(&self, key: &ObjectKey) -> Option<Duration> {
        let until = self.memory.named(key)?.slow_until?;
        until.checked_sub(self.ports.host.uptime.uptime()).filter(|left| !left.is_zero())
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

/// Which keys a change concerns.
impl Modifier {
    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<ObjectKey>) {
        if let Some(claim) = change.latest().filter(|_| matters(change)) {
            queue.add(claim.key());
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<ObjectKey>) {
        if let (None, Some(new)) = (&change.old, &change.new) {
            let claims = self.claims.indexed(indexes::CLAIMS_BY_VOLUME, new.name());
            claims.iter().for_each(|claim| queue.add(claim.key()));
        }
    }

    /// A class that appears is what claims that name it may wait for.
    fn class_changed(&self, change: &Change<VolumeAttributesClass>, queue: &Queue<ObjectKey>) {
        if let (None, Some(new)) = (&change.old, &change.new) {
            let claims = self.claims.indexed(indexes::CLAIMS_OF_ATTRIBUTES_CLASS, new.name());
            claims.iter().for_each(|claim| queue.add(claim.key()));
        }
    }
}

/// Our own conditions must not defeat the back-off that follows them.
pub(super) fn matters(change: &Change<PersistentVolumeClaim>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let read = |claim: &PersistentVolumeClaim| {
        (
            volume::claim_attributes_class(claim).to_owned(),
            current_attributes_class(claim).to_owned(),
            modify_status(claim).is_some(),
            modify_target(claim).to_owned(),
            volume::claim_phase(claim).to_owned(),
            volume::claim_volume(claim).to_owned(),
        )
    };
    read(old) != read(new)
}
