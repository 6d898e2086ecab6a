//! The role: flags, watches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, VolumeSnapshotClass, VolumeSnapshotContent, keys};
use bowline_machinery::csi::Driver;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Change, Context, EffectError, Effects, Identity, Pool, Ports, Queue, Recorder,
};
use bowline_machinery::{Role, RunError, Scope, Sidecar, Step, Watches};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use clap::ArgAction;

use super::decide::{decide, should_delete};
use super::memory::Memory;
use super::model::{Action, Answer, Content, Key, Settings, Why};
use crate::sidecars::snapshots::{SNAPSHOTS, served};

/// Longest pause between two looks for the kinds while they are not served.
const SERVED_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Names of snapshots begin with this and a dash
    #[arg(long, default_value = "snapshot")]
    pub snapshot_name_prefix: String,
    /// Characters of the snapshot's UID in the name, dashes removed; -1 is all of it, as it is
    #[arg(long, default_value_t = -1, allow_hyphen_values = true, value_parser = uuid_length)]
    pub snapshot_name_uuid_length: i64,
    /// Tell the driver the names of snapshot and content
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub extra_create_metadata: bool,
    /// Handle only what is labelled with this node's name, which NODE_NAME says
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub node_deployment: bool,
    /// The node of --node-deployment
    #[arg(long, env = "NODE_NAME", default_value = "", hide = true)]
    pub node_name: String,
}

/// Without a character of the UID, all snapshots would share one name; a UID has 32.
fn uuid_length(text: &str) -> Result<i64, String> {
    let length = text.parse().ok().filter(|length| *length == -1 || (1..=32).contains(length));
    length.ok_or_else(|| format!("`{text}` is neither -1 nor a number from 1 to 32"))
}

/// Whether the driver takes snapshots at all.
pub fn can_snapshot(identity: &Identity) -> bool {
    identity.can(Rpc::CreateDeleteSnapshot)
}

/// The role, as its steps see it.
pub struct Snapshotter {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    pub(super) backoff: Backoff,
    pub(super) settings: Arc<Settings>,
    pub(super) contents: Cache<VolumeSnapshotContent>,
    pub(super) classes: Cache<VolumeSnapshotClass>,
    pub(super) memory: Memory,
}

#[async_trait]
impl Role for Snapshotter {
    /// Upstream's name in the journal.
    const NAME: &'static str = "external-snapshotter";
    /// Of each pool; upstream's default is 10 for all.
    const WORKERS: usize = 64;
    type Settings = (Sidecar, Flags);
    type Key = Key;
    type Observed = Content;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, (sidecar, flags): (Sidecar, Flags)) -> Result<Self, RunError> {
        let Context { ports, effects, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        if !can_snapshot(&identity) {
            let name = &identity.name;
            return Err(RunError::Refused(format!(
                "CSI driver {name} does not support ControllerCreateSnapshot: run csi-snapshotter beside drivers that have the capability CREATE_DELETE_SNAPSHOT"
            )));
        }
        served(&ports, Self::NAME, SNAPSHOTS, SERVED_PAUSE_MAX).await;
        if flags.node_deployment {
            let labels = Some(format!("{}={}", keys::SNAPSHOT_MANAGED_BY, flags.node_name));
            let scope = Scope { labels, ..Scope::default() };
            let restricted = ports.informers.restrict::<VolumeSnapshotContent>(scope);
            restricted.map_err(|error| RunError::Refused(error.to_string()))?;
        }
        Ok(Self {
            recorder: ports.recorder(format!("csi-snapshotter {}", identity.name)),
            effects: effects.measured(&ports.metrics, &identity.name),
            contents: ports.informers.of(),
            classes: ports.informers.of(),
            settings: Arc::new(Settings {
                lists: identity.can(Rpc::ListSnapshots),
                driver: identity.name,
                prefix: flags.snapshot_name_prefix,
                uuid_length: usize::try_from(flags.snapshot_name_uuid_length).ok(),
                extra_create_metadata: flags.extra_create_metadata,
            }),
            memory: Memory::default(),
            ports,
            driver,
            timeout,
            backoff,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.contents, Self::content_changed).on(&self.classes, Self::class_changed);
    }
    async fn observe(&self, key: &Key) -> Result<Option<Content>, EffectError> {
        Ok(self.see(key))
    }
    fn decide(seen: &Content) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Content) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
    async fn failed(&self, Key(name): &Key, error: &EffectError) {
        let Some(content) = self.contents.named(name).filter(|_| !error.lease_lost()) else { return };
        // Said once; the next attempt asks the driver again.
        let uid = content.uid();
        if let Answer::Refused(_) = self.memory.answer(uid, self.ports.host.uptime.uptime()) {
            self.memory.set(uid, Answer::None);
        }
        self.tell_failure(&content, error).await;
    }
    /// While a snapshot is not ready, the driver is asked again with a growing pause.
    fn look_again(&self, Key(name): &Key) -> Option<Duration> {
        let content = self.contents.named(name)?;
        self.memory.asks_again(content.uid(), self.ports.host.uptime.uptime())
    }
    /// A driver that is slow to delete must not hold up new snapshots.
    fn pool(&self, Key(name): &Key) -> Pool {
        let deleting = self.contents.named(name).is_some_and(|content| should_delete(&content));
        Pool::new(if deleting { "delete" } else { "create" }, Self::WORKERS)
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

/// Which keys a change concerns.
impl Snapshotter {
    fn content_changed(&self, change: &Change<VolumeSnapshotContent>, queue: &Queue<Key>) {
        let Some(content) = change.latest() else { return };
        if change.new.is_none() {
            self.memory.forget(content.uid());
            return;
        }
        if self.is_ours(content) && !only_notes_differ(change) {
            queue.add(Key(content.name().to_owned()));
        }
    }

    /// Contents that wait for their class.
    fn class_changed(&self, change: &Change<VolumeSnapshotClass>, queue: &Queue<Key>) {
        let Some(class) = change.new.as_ref().filter(|class| class.driver == self.settings.driver) else {
            return;
        };
        let named = |content: &VolumeSnapshotContent| {
            content.spec.volume_snapshot_class_name.as_deref() == Some(class.name())
        };
        let unready = |content: &VolumeSnapshotContent| {
            content.status.as_ref().and_then(|status| status.ready_to_use) != Some(true)
        };
        let waiting = self.contents.list().into_iter().filter(|c| named(c) && unready(c) && self.is_ours(c));
        waiting.for_each(|content| queue.add(Key(content.name().to_owned())));
    }
}

/// Our own notes must not defeat the back-off that follows them: status, finalizers and the annotation of a create. A content
/// that turns ready is looked at again, since a deletion may have waited for it.
pub(super) fn only_notes_differ(change: &Change<VolumeSnapshotContent>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let ready = |content: &VolumeSnapshotContent| {
        content.status.as_ref().and_then(|status| status.ready_to_use) == Some(true)
    };
    let rest = |content: &VolumeSnapshotContent| {
        let mut rest = content.clone();
        rest.status = None;
        let metadata = &mut rest.metadata;
        (metadata.managed_fields, metadata.resource_version, metadata.finalizers) = (None, None, None);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.remove(keys::SNAPSHOT_BEING_CREATED);
        rest
    };
    (ready(old) || !ready(new)) && rest(old) == rest(new)
}
