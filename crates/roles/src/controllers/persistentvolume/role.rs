//! The role: flags, watches, and what people are told.

use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, pod, volume};
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Change, Context, EffectError, Effects, Object, Queue, Recorder, Role, RunError,
};
use bowline_machinery::{Step, Told, Watches};

use super::decide;
use super::model::{Action, Key, Observed, Tone, Why};
use super::promise::Promises;
use crate::indexes;

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Ask provisioners for volumes that no existing one satisfies
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub enable_dynamic_provisioning: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self { enable_dynamic_provisioning: true }
    }
}

pub struct Binder {
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) pods: Cache<Pod>,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) promises: Promises,
    pub(super) flags: Flags,
    told: Told<Key>,
}

#[async_trait]
impl Role for Binder {
    /// Event source, as upstream spells it.
    const NAME: &'static str = "persistentvolume-controller";
    /// Upstream has two workers; here a key guards itself and writes guard each other.
    const WORKERS: usize = 64;
    type Settings = Flags;
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, flags: Flags) -> Result<Self, RunError> {
        let informers = &context.ports.informers;
        let binder = Self {
            claims: informers.of(),
            volumes: informers.of(),
            classes: informers.of(),
            pods: informers.of(),
            effects: context.effects,
            recorder: context.recorder,
            promises: Promises::default(),
            flags,
            told: Told::default(),
        };
        indexes::claims_to_bind(&binder.claims);
        indexes::volumes_to_bind(&binder.volumes);
        indexes::pods(&binder.pods);
        Ok(binder)
    }

    /// Upstream leaves most of these to a 15 s resync.
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.claims, Self::claim_changed).on(&self.volumes, Self::volume_changed);
        watches.on(&self.classes, Self::class_changed).on(&self.pods, Self::pod_changed);
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        self.see(key).await
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, key: &Key, seen: &Observed, why: &Why) {
        if why.event().is_some() && self.told.news(key, &why.to_string()) {
            self.tell(seen, why);
        }
    }
    fn settled(&self, key: &Key) {
        self.told.forget(key);
    }
    /// Upstream's resync looks at everything again after 15 s, so no failure waits longer than that.
    fn backoff(&self) -> Backoff {
        Backoff { start: Duration::from_millis(5), max: Duration::from_secs(15) }
    }
}

/// Which keys a change concerns.
impl Binder {
    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<Key>) {
        let Some(claim) = change.latest() else { return };
        queue.add(Key::Claim(claim.key()));
        let referring = self.volumes.indexed(indexes::VOLUMES_BY_CLAIM, &claim.key().to_string());
        referring.iter().for_each(|volume| queue.add(Key::Volume(volume.name().to_owned())));
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<Key>) {
        let Some(latest) = change.latest() else { return };
        queue.add(Key::Volume(latest.name().to_owned()));
        let referred = change.sides().filter_map(|side| volume::claim_ref(side)).map(indexes::reference_key);
        referred.for_each(|key| queue.add(Key::Claim(key)));
        let naming = self.claims.indexed(indexes::CLAIMS_BY_VOLUME, latest.name());
        naming.iter().for_each(|claim| queue.add(Key::Claim(claim.key())));
        if change.new.as_deref().is_some_and(indexes::is_free) {
            let class = volume::volume_class(latest);
            let searching = self.claims.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class);
            searching.iter().for_each(|claim| queue.add(Key::Claim(claim.key())));
        }
    }

    fn class_changed(&self, change: &Change<StorageClass>, queue: &Queue<Key>) {
        let Some(class) = change.latest() else { return };
        let mut searching = self.claims.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class.name());
        if volume::is_default_class(class) {
            searching.extend(self.claims.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, ""));
        }
        searching.iter().for_each(|claim| queue.add(Key::Claim(claim.key())));
    }

    /// A pod matters to a claim's event only once the scheduler has looked at it and found no place.
    fn pod_changed(&self, change: &Change<Pod>, queue: &Queue<Key>) {
        let Some(new) = change.new.as_ref().filter(|pod| pod::unschedulable(pod)) else { return };
        for (_, name) in pod::claims(new) {
            let key = ObjectKey::new(new.namespace(), name);
            if self.claims.get(&key).is_some_and(|claim| volume::claim_volume(&claim).is_empty()) {
                queue.add(Key::Claim(key));
            }
        }
    }
}

/// What people are told.
impl Binder {
    fn tell(&self, seen: &Observed, why: &Why) {
        let Some((tone, reason)) = why.event() else { return };
        match seen {
            Observed::Claim(seen) => self.record(&*seen.claim, tone, reason, why.to_string()),
            Observed::Volume(seen) => {
                self.record(&*seen.volume, tone, reason, why.to_string());
                if let (Why::ModeMismatch { volume, .. }, Some(claim)) = (why, &seen.claim) {
                    let text = format!(
                        "Cannot bind PersistentVolume \"{volume}\" to requested PersistentVolumeClaim due to incompatible volumeMode."
                    );
                    self.record(&**claim, tone, reason, text);
                }
            }
        }
    }

    fn record<K: Object>(&self, object: &K, tone: Tone, reason: &'static str, text: String) {
        match tone {
            Tone::Normal => self.recorder.normal(object, reason, text),
            Tone::Warning => self.recorder.warning(object, reason, text),
        }
    }
}
