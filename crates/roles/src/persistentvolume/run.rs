//! Flags, watches and the queue of the binder.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, pod, volume};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Change, EffectError, Keyed, Ports, Recorder, RunError, Step, Told};

use super::act::Hands;
use super::decide;
use super::observe::Sight;
use super::world::{Action, Key, Observed, Tone, Why};
use crate::indexes;

/// Event source, as upstream spells it.
const COMPONENT: &str = "persistentvolume-controller";
/// Keys worked on at once. Upstream has two workers; here a key guards itself and writes guard each other.
const WORKERS: usize = 64;
/// Upstream's resync looks at everything again after 15 s, so no failure waits longer than that.
const BACKOFF: Backoff = Backoff { start: Duration::from_millis(5), max: Duration::from_secs(15) };

#[derive(Debug, Clone, clap::Args)]
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

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports, flags: Flags) -> Result<(), RunError> {
    let effects = ports.effects(COMPONENT);
    let recorder = ports.recorder(COMPONENT);
    let sight = Sight::new(&ports, effects.clone(), flags.enable_dynamic_provisioning);
    let hands = Hands { effects, recorder, promises: sight.promises.clone() };
    let binder = Arc::new(Binder { sight, hands, told: Told::default() });
    let queue = Queue::new(BACKOFF);
    wire(&binder, &queue);
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = binder.sight.synced() => {}
    }
    let work = move |key| {
        let binder = binder.clone();
        async move { reconcile(&*binder, &key).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

struct Binder {
    sight: Sight,
    hands: Hands,
    told: Told<Key>,
}

#[async_trait]
impl Keyed for Binder {
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        let seen = match key {
            Key::Claim(key) => self.sight.claim(key).await?.map(Observed::Claim),
            Key::Volume(name) => self.sight.volume(name).await?.map(Observed::Volume),
        };
        if seen.as_ref().is_none_or(settled) {
            self.told.forget(key);
        }
        Ok(seen)
    }

    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }

    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.hands.act(action, seen).await
    }

    fn waiting(&self, key: &Key, seen: &Observed, why: &Why) {
        if why.event().is_some() && self.told.news(key, &why.to_string()) {
            tell(&self.hands.recorder, seen, why);
        }
    }
}

fn settled(seen: &Observed) -> bool {
    match seen {
        Observed::Claim(seen) => volume::bound(&seen.claim),
        Observed::Volume(seen) => volume::volume_phase(&seen.volume) == volume::BOUND,
    }
}

fn tell(recorder: &Recorder, seen: &Observed, why: &Why) {
    let Some((tone, reason)) = why.event() else { return };
    match seen {
        Observed::Claim(seen) => record(recorder, &*seen.claim, tone, reason, why.to_string()),
        Observed::Volume(seen) => {
            record(recorder, &*seen.volume, tone, reason, why.to_string());
            if let (Why::ModeMismatch { volume, .. }, Some(claim)) = (why, &seen.claim) {
                let text = format!(
                    "Cannot bind PersistentVolume \"{volume}\" to requested PersistentVolumeClaim due to incompatible volumeMode."
                );
                record(recorder, &**claim, tone, reason, text);
            }
        }
    }
}

fn record<K: bowline_machinery::Object>(
    recorder: &Recorder,
    object: &K,
    tone: Tone,
    reason: &'static str,
    text: String,
) {
    match tone {
        Tone::Normal => recorder.normal(object, reason, text),
        Tone::Warning => recorder.warning(object, reason, text),
    }
}

/// Which keys a change concerns. Upstream leaves most of these to a 15 s resync.
fn wire(binder: &Binder, queue: &Queue<Key>) {
    let Sight { claims, volumes, classes, pods, .. } = &binder.sight;

    let (to, seen) = (queue.clone(), volumes.clone());
    claims.on_change(move |change: &Change<PersistentVolumeClaim>| {
        let Some(claim) = change.latest() else { return };
        to.add(Key::Claim(claim.key()));
        let referring = seen.indexed(indexes::VOLUMES_BY_CLAIM, &claim.key().to_string());
        referring.iter().for_each(|volume| to.add(Key::Volume(volume.name().to_owned())));
    });

    let (to, seen) = (queue.clone(), claims.clone());
    volumes.on_change(move |change: &Change<PersistentVolume>| {
        let Some(latest) = change.latest() else { return };
        to.add(Key::Volume(latest.name().to_owned()));
        let referred = change.sides().filter_map(|side| volume::claim_ref(side)).map(indexes::reference_key);
        referred.for_each(|key| to.add(Key::Claim(key)));
        let naming = seen.indexed(indexes::CLAIMS_BY_VOLUME, latest.name());
        naming.iter().for_each(|claim| to.add(Key::Claim(claim.key())));
        if change.new.as_deref().is_some_and(indexes::is_free) {
            let class = volume::volume_class(latest);
            let searching = seen.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class);
            searching.iter().for_each(|claim| to.add(Key::Claim(claim.key())));
        }
    });

    let (to, seen) = (queue.clone(), claims.clone());
    classes.on_change(move |change: &Change<StorageClass>| {
        let Some(class) = change.latest() else { return };
        let mut searching = seen.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class.name());
        if volume::is_default_class(class) {
            searching.extend(seen.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, ""));
        }
        searching.iter().for_each(|claim| to.add(Key::Claim(claim.key())));
    });

    // A pod matters to a claim's event only once the scheduler has looked at it and found no place.
    let (to, seen) = (queue.clone(), claims.clone());
    pods.on_change(move |change: &Change<Pod>| {
        let Some(new) = change.new.as_ref().filter(|pod| pod::unschedulable(pod)) else { return };
        for (_, name) in pod::claims(new) {
            let key = bowline_api::ObjectKey::new(new.namespace(), name);
            if seen.get(&key).is_some_and(|claim| volume::claim_volume(&claim).is_empty()) {
                to.add(Key::Claim(key));
            }
        }
    });
}
