//! The role: flags, watches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSINode, Meta, PersistentVolume, VolumeAttachment, keys, volume};
use bowline_machinery::capability::SingleNode;
use bowline_machinery::csi::Driver;
use bowline_machinery::flags::duration;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Pool, Ports, Queue, Role};
use bowline_machinery::{RunError, Sidecar, Step, Watches};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;

use super::act::Answers;
use super::decide::decide;
use super::model::{Action, Key, Observed, Why};
use super::reconcile::{Forced, Listed};
use crate::indexes;

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Filesystem of volumes that name none
    #[arg(long, default_value = "")]
    pub default_fstype: String,
    /// How often the driver is asked which volumes are published, to find attachments that say otherwise
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1m")]
    pub reconcile_sync: Duration,
    /// Volumes of one answer to ListVolumes; 0 leaves it to the driver
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    pub max_entries: i32,
}

/// Upstream asks without a pause when it is zero.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval.is_zero() { Err("it must be greater than zero".to_owned()) } else { Ok(interval) }
}

/// The role, as its steps see it.
pub struct Attacher {
    pub(super) ports: Ports,
    pub(super) flags: Flags,
    pub(super) effects: Effects,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    backoff: Backoff,
    pub(super) driver_name: String,
    pub(super) finalizer: String,
    pub(super) publishes: bool,
    pub(super) publishes_read_only: bool,
    pub(super) single_node: SingleNode,
    pub(super) attachments: Cache<VolumeAttachment>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) nodes: Cache<CSINode>,
    pub(super) answers: Answers,
    pub(super) queue: Queue<Key>,
    /// LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES.
    lists_published: bool,
    pub(super) forced: Forced,
    pub(super) listed: Listed,
}

#[async_trait]
impl Role for Attacher {
    /// Upstream's name in the journal.
    const NAME: &'static str = "external-attacher";
    /// Of each pool; upstream's default is 10 for all.
    const WORKERS: usize = 64;
    type Settings = (Sidecar, Flags);
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, (sidecar, flags): (Sidecar, Flags)) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        let effects = effects.measured(&ports.metrics, &identity.name);
        let lists = identity.can(Rpc::ListVolumes) && identity.can(Rpc::ListVolumesPublishedNodes);
        let multi_writer = identity.can(Rpc::SingleNodeMultiWriter);
        let publishes = identity.can(Rpc::PublishUnpublishVolume);
        let role = Self {
            attachments: ports.informers.of(),
            volumes: ports.informers.of(),
            nodes: ports.informers.of(),
            finalizer: keys::attacher_finalizer(&identity.name),
            publishes,
            publishes_read_only: identity.can(Rpc::PublishReadonly),
            single_node: if multi_writer { SingleNode::MultiWriter } else { SingleNode::Plain },
            driver_name: identity.name,
            answers: Answers::default(),
            lists_published: lists && publishes,
            forced: Forced::default(),
            listed: Listed::default(),
            queue,
            ports,
            flags,
            effects,
            driver,
            timeout,
            backoff,
        };
        indexes::attachments(&role.attachments);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.attachments, Self::attachment_changed);
        if self.publishes {
            watches.on(&self.volumes, Self::volume_changed).on(&self.nodes, Self::node_changed);
        }
    }
    async fn begin(&self) -> Result<(), RunError> {
        if self.lists_published {
            self.queue.add(Key::Listing);
        }
        Ok(())
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(key))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    async fn failed(&self, key: &Key, error: &EffectError) {
        if let Key::Attachment(name) = key {
            // The next list says whether it is to be tried again.
            self.forced.clear(name);
            self.save_error(name, error).await;
        }
    }
    fn settled(&self, key: &Key) {
        match key {
            Key::Attachment(name) => {
                self.forced.clear(name);
                if self.attachments.named(name).is_none() {
                    self.answers.forget(name);
                }
            }
            Key::Listing => self.listed.set(false),
            Key::Volume(_) => {}
        }
    }
    fn look_again(&self, key: &Key) -> Option<Duration> {
        (*key == Key::Listing).then_some(self.flags.reconcile_sync)
    }
    /// A driver that cannot detach must not keep volumes from being attached, and the other way round.
    fn pool(&self, key: &Key) -> Pool {
        let detaching = |name: &String| self.attachments.named(name).is_some_and(|a| a.deleting());
        let name = match key {
            Key::Attachment(name) if detaching(name) => "detach",
            Key::Attachment(_) => "attach",
            Key::Volume(_) => "volume",
            Key::Listing => "listing",
        };
        Pool::new(name, Self::WORKERS)
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

impl Attacher {
    fn attachment_changed(&self, change: &Change<VolumeAttachment>, queue: &Queue<Key>) {
        let Some(attachment) = change.latest() else { return };
        if attachment.spec.attacher == self.driver_name && !only_errors_differ(change) {
            queue.add(Key::Attachment(attachment.name().to_owned()));
        }
        // The last attachment of any driver may have been what kept a volume.
        if let (None, Some(name)) = (&change.new, volume::attachment_volume(attachment)) {
            queue.add(Key::Volume(name.to_owned()));
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<Key>) {
        let Some(volume) = &change.new else { return };
        if volume.deleting() && volume.has_finalizer(&self.finalizer) {
            queue.add(Key::Volume(volume.name().to_owned()));
        }
        if change.old.is_none() {
            self.wake(indexes::ATTACHMENTS_OF_VOLUME, volume.name(), queue);
        }
    }

    fn node_changed(&self, change: &Change<CSINode>, queue: &Queue<Key>) {
        let id = |node: &Arc<CSINode>| {
            node.spec.drivers.iter().find(|d| d.name == self.driver_name).map(|d| d.node_id.clone())
        };
        let (before, now) = (change.old.as_ref().and_then(id), change.new.as_ref().and_then(id));
        if let (Some(node), true) = (change.latest(), now.is_some() && before != now) {
            self.wake(indexes::ATTACHMENTS_ON_NODE, node.name(), queue);
        }
    }

    fn wake(&self, index: &str, value: &str, queue: &Queue<Key>) {
        let ours = self.attachments.indexed(index, value).into_iter();
        ours.filter(|a| a.spec.attacher == self.driver_name)
            .for_each(|a| queue.add(Key::Attachment(a.name().to_owned())));
    }
}

/// Our own notes of errors must not defeat the back-off that follows them.
pub(super) fn only_errors_differ(change: &Change<VolumeAttachment>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let has_error = |a: &VolumeAttachment| {
        a.status.as_ref().is_some_and(|s| s.attach_error.is_some() || s.detach_error.is_some())
    };
    let rest = |a: &VolumeAttachment| {
        let mut rest = a.clone();
        rest.metadata.managed_fields = None;
        rest.metadata.resource_version = None;
        let status = rest.status.get_or_insert_default();
        (status.attach_error, status.detach_error) = (None, None);
        rest
    };
    (has_error(old) || has_error(new)) && rest(old) == rest(new)
}
