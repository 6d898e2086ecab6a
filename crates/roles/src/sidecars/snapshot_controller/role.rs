//! The role: flags, watches.

use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, volume};
use bowline_api::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use bowline_machinery::flags::duration;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Pool, Ports, Queue, Recorder};
use bowline_machinery::{Role, RunError, Step, Told, Watches};
use clap::ArgAction;

use super::decide::decide;
use super::model::{Action, Key, Observed, Settings, Why};
use super::operations::{CREATE, CREATE_AND_READY, DELETE, Memory};
use crate::indexes;
use crate::sidecars::snapshots::{SNAPSHOTS, is_ready, served};

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// First delay after a failure; doubled with each further one
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub retry_interval_start: Duration,
    /// Longest delay between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub retry_interval_max: Duration,
    /// Longest delay between two looks for the snapshot kinds while they are not served
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub retry_crd_interval_max: Duration,
    /// Leave each snapshot to the csi-snapshotter on a node that reaches the volume
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub enable_distributed_snapshotting: bool,
    /// Note the volume's mode, so that no volume of another mode is restored
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub prevent_volume_mode_conversion: bool,
}

/// The role, as its steps see it.
pub struct SnapshotController {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    backoff: Backoff,
    pub(super) settings: Settings,
    pub(super) snapshots: Cache<VolumeSnapshot>,
    pub(super) contents: Cache<VolumeSnapshotContent>,
    pub(super) classes: Cache<VolumeSnapshotClass>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    /// Only in distributed mode: without it the role may not even read them.
    pub(super) nodes: Option<Cache<Node>>,
    pub(super) memory: Memory,
    told: Told<Key>,
}

#[async_trait]
impl Role for SnapshotController {
    const NAME: &'static str = "snapshot-controller";
    /// Upstream's default is 10.
    const WORKERS: usize = 64;
    type Settings = Flags;
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, flags: Flags) -> Result<Self, RunError> {
        let Context { ports, effects, recorder, .. } = context;
        served(&ports, Self::NAME, SNAPSHOTS, flags.retry_crd_interval_max).await;
        let informers = &ports.informers;
        let role = Self {
            snapshots: informers.of(),
            contents: informers.of(),
            classes: informers.of(),
            claims: informers.of(),
            volumes: informers.of(),
            nodes: flags.enable_distributed_snapshotting.then(|| informers.of()),
            backoff: Backoff { start: flags.retry_interval_start, max: flags.retry_interval_max },
            settings: Settings {
                keep_volume_mode: flags.prevent_volume_mode_conversion,
                distributed: flags.enable_distributed_snapshotting,
            },
            memory: Memory::default(),
            told: Told::default(),
            ports,
            effects,
            recorder,
        };
        indexes::snapshots(&role.snapshots);
        indexes::claims_by_snapshot(&role.claims);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.snapshots, Self::snapshot_changed).on(&self.contents, Self::content_changed);
        watches.on(&self.classes, Self::class_changed).on(&self.claims, Self::claim_changed);
        watches.on(&self.volumes, Self::volume_changed);
        if let Some(nodes) = &self.nodes {
            watches.read(nodes);
        }
    }
    async fn prepare(&self, key: &Key) -> Result<(), EffectError> {
        if let Key::Snapshot(key) = key
            && let Some(snapshot) = self.snapshots.get(key)
        {
            self.measure(key, &snapshot);
        }
        Ok(())
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        self.see(key).await
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, key: &Key, seen: &Observed, why: &Why) {
        match (seen, why) {
            (Observed::Snapshot(seen), Why::DeletePending(text)) if self.told.news(key, text) => {
                self.recorder.warning(seen.object.as_ref(), "SnapshotDeletePending", text.clone());
            }
            (Observed::Content(seen), Why::InvalidContent) if self.told.news(key, "invalid") => {
                self.recorder.warning(seen.object.as_ref(), "ContentValidationError", why.to_string());
            }
            _ => {}
        }
    }
    fn settled(&self, key: &Key) {
        self.told.forget(key);
        if let Key::Snapshot(key) = key
            && self.snapshots.get(key).is_none()
        {
            let now = self.ports.host.uptime.uptime();
            self.memory.succeeded(&self.ports.metrics, key, DELETE, now);
        }
    }
    /// Deletions do not wait behind new snapshots, nor the other way round.
    fn pool(&self, key: &Key) -> Pool {
        let deleting = |key: &ObjectKey| self.snapshots.get(key).is_some_and(|one| one.deleting());
        let name = match key {
            Key::Snapshot(key) if deleting(key) => "delete",
            Key::Snapshot(_) => "create",
            Key::Content(_) => "content",
        };
        Pool::new(name, Self::WORKERS)
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

/// Which keys a change concerns.
impl SnapshotController {
    fn snapshot_changed(&self, change: &Change<VolumeSnapshot>, queue: &Queue<Key>) {
        let Some(snapshot) = change.latest() else { return };
        queue.add(Key::Snapshot(snapshot.key()));
        let ready = |one: &std::sync::Arc<VolumeSnapshot>| is_ready(one);
        let settled = change.new.as_ref().is_none_or(ready) && !change.old.as_ref().is_some_and(ready);
        // It may have been the last one for which others left the claim guarded.
        if let Some(claim) = snapshot.spec.source.persistent_volume_claim_name.as_deref().filter(|_| settled)
        {
            self.wake_snapshots_of(&ObjectKey::new(snapshot.namespace(), claim), queue);
        }
    }

    fn content_changed(&self, change: &Change<VolumeSnapshotContent>, queue: &Queue<Key>) {
        let Some(content) = change.latest() else { return };
        queue.add(Key::Content(content.name().to_owned()));
        let reference = &content.spec.volume_snapshot_ref;
        if let (Some(namespace), Some(name)) = (&reference.namespace, &reference.name) {
            queue.add(Key::Snapshot(ObjectKey::new(namespace, name)));
        }
        // One that names it as its source, and that it does not name: its owner is told of the mismatch.
        let named = self.snapshots.indexed(indexes::SNAPSHOTS_BY_CONTENT, content.name());
        named.iter().for_each(|snapshot| queue.add(Key::Snapshot(snapshot.key())));
    }

    /// Those that waited for a class, or for another default one.
    fn class_changed(&self, change: &Change<VolumeSnapshotClass>, queue: &Queue<Key>) {
        let Some(class) = change.latest() else { return };
        let name = |snapshot: &VolumeSnapshot| snapshot.spec.volume_snapshot_class_name.clone();
        let concerned = |one: &VolumeSnapshot| name(one).is_none_or(|name| name == class.name());
        let snapshots = self.snapshots.list().into_iter();
        snapshots.filter(|one| concerned(one)).for_each(|one| queue.add(Key::Snapshot(one.key())));
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<Key>) {
        let Some(claim) = change.latest() else { return };
        self.wake_snapshots_of(&claim.key(), queue);
        // A restore that has ended frees the snapshot that it was made from.
        if let Some(snapshot) = indexes::restored_snapshot(claim) {
            queue.add(Key::Snapshot(snapshot));
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<Key>) {
        let Some(reference) = change.latest().and_then(|volume| volume::claim_ref(volume)) else { return };
        if let (Some(namespace), Some(name)) = (&reference.namespace, &reference.name) {
            self.wake_snapshots_of(&ObjectKey::new(namespace, name), queue);
        }
    }

    fn wake_snapshots_of(&self, claim: &ObjectKey, queue: &Queue<Key>) {
        let snapshots = self.snapshots.indexed(indexes::SNAPSHOTS_BY_CLAIM, &claim.to_string()).into_iter();
        snapshots.for_each(|snapshot| queue.add(Key::Snapshot(snapshot.key())));
    }

    /// Operations begin when they are first seen to be wanted.
    fn measure(&self, key: &ObjectKey, snapshot: &VolumeSnapshot) {
        let dynamic = snapshot.spec.source.persistent_volume_claim_name.is_some();
        let kind = if dynamic { "dynamic" } else { "pre-provisioned" };
        let class =
            snapshot.spec.volume_snapshot_class_name.as_deref().and_then(|name| self.classes.named(name));
        let driver = class.map(|class| class.driver.clone()).unwrap_or_default();
        let created = snapshot.status.as_ref().is_some_and(|status| status.creation_time.is_some());
        let (metrics, now) = (&self.ports.metrics, self.ports.host.uptime.uptime());
        let begin = |name| self.memory.begin(metrics, key, name, (driver.clone(), kind), now);
        if snapshot.deleting() {
            begin(DELETE);
            return;
        }
        if !created {
            begin(CREATE);
        }
        if !is_ready(snapshot) {
            begin(CREATE_AND_READY);
        }
    }
}
