//! The role: caches, watches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::expansion::{claim_capacity, resize_status};
use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod, volume};
use bowline_machinery::capability::SingleNode;
use bowline_machinery::csi::Driver;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Ports, Queue, Recorder, Role};
use bowline_machinery::{RunError, Sidecar, Step, Told, Watches};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;

use super::super::memory::Memory;
use super::super::{Flags, NAME};
use super::decide::decide;
use super::memory::Record;
use super::model::{Action, Expansion, Observed, Settings, Why};
use crate::indexes;

/// The role, as its steps see it.
pub struct Resizer {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    /// Its longest pause is also how long a size that cannot be had rests.
    pub(super) backoff: Backoff,
    pub(super) single_node: SingleNode,
    pub(super) settings: Arc<Settings>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    /// Only with `--handle-volume-inuse-error`.
    pub(super) pods: Option<Cache<Pod>>,
    pub(super) memory: Memory<Record>,
    told: Told<ObjectKey>,
}

#[async_trait]
impl Role for Resizer {
    const NAME: &'static str = NAME;
    /// Upstream's default is 10.
    const WORKERS: usize = 64;
    type Settings = (Sidecar, Flags, Expansion);
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<ObjectKey>, settings: Self::Settings) -> Result<Self, RunError> {
        let (sidecar, flags, expansion) = settings;
        let Context { ports, effects, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        let multi_writer = identity.can(Rpc::SingleNodeMultiWriter);
        let informers = &ports.informers;
        let role = Self {
            effects: effects.measured(&ports.metrics, &identity.name),
            recorder: ports.recorder(format!("{NAME} {}", identity.name)),
            single_node: if multi_writer { SingleNode::MultiWriter } else { SingleNode::Plain },
            settings: Arc::new(Settings { driver: identity.name, expansion }),
            claims: informers.of(),
            volumes: informers.of(),
            pods: flags.handle_volume_inuse_error.then(|| informers.of()),
            memory: Memory::default(),
            told: Told::default(),
            ports,
            driver,
            timeout,
            backoff,
        };
        indexes::claims_to_bind(&role.claims);
        role.pods.iter().for_each(indexes::pods);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.claims, Self::claim_changed).on(&self.volumes, Self::volume_changed);
        if let Some(pods) = &self.pods {
            watches.on(pods, Self::pod_changed);
        }
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
        let told = matches!(why, Why::InUse { .. } | Why::InTree { .. });
        if told && self.told.news(key, &text) {
            self.recorder.warning(seen.claim.as_ref(), "VolumeResizeFailed", text);
        }
    }
    fn settled(&self, key: &ObjectKey) {
        self.told.forget(key);
        match self.claims.get(key) {
            Some(_) => self.memory.change_named(key, |record| record.outcome = None),
            None => self.memory.forget(key),
        }
    }
    /// A size that cannot be had is tried again after a while.
    fn look_again(&self, key: &ObjectKey) -> Option<Duration> {
        let until = self.memory.named(key)?.slow_until?;
        until.checked_sub(self.ports.host.uptime.uptime()).filter(|left| !left.is_zero())
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

/// Which keys a change concerns.
impl Resizer {
    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<ObjectKey>) {
        if let Some(claim) = change.latest().filter(|_| matters(change)) {
            queue.add(claim.key());
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<ObjectKey>) {
        let Some(new) = &change.new else { return };
        let read = |volume: &PersistentVolume| {
            let spec = volume.spec.clone().unwrap_or_default();
            (spec.capacity, spec.claim_ref, spec.csi)
        };
        if change.old.as_ref().is_none_or(|old| read(old) != read(new)) {
            let claims = self.claims.indexed(indexes::CLAIMS_BY_VOLUME, new.name());
            claims.iter().for_each(|claim| queue.add(claim.key()));
        }
    }

    /// The last user of a volume that is only expanded offline may have ended.
    fn pod_changed(&self, change: &Change<Pod>, queue: &Queue<ObjectKey>) {
        let Some(latest) = change.latest() else { return };
        if change.new.as_ref().is_some_and(|pod| !pod::terminated(pod)) {
            return;
        }
        let keys = pod::claims(latest).map(|(_, claim)| ObjectKey::new(latest.namespace(), claim));
        let waits = |key: &ObjectKey| self.memory.named(key).is_some_and(|record| record.offline_only);
        keys.filter(waits).for_each(|key| queue.add(key));
    }
}

/// Our own conditions must not defeat the back-off that follows them.
pub(super) fn matters(change: &Change<PersistentVolumeClaim>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let read = |claim: &PersistentVolumeClaim| {
        (
            claim.spec.as_ref().and_then(volume::requested).cloned(),
            claim.annotation(keys::STORAGE_RESIZER).map(String::from),
            volume::claim_phase(claim).to_owned(),
            volume::claim_volume(claim).to_owned(),
            claim_capacity(claim).cloned(),
            resize_status(claim).to_owned(),
        )
    };
    read(old) != read(new)
}
