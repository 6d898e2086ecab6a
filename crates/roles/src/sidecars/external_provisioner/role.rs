//! The role: flags, watches.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::volume::{BOUND, PENDING, RELEASED, claim_phase, claim_volume, volume_phase};
use bowline_api::{CSINode, Meta, Node, PersistentVolume, PersistentVolumeClaim, StorageClass};
use bowline_api::{VolumeAttachment, keys, volume};
use bowline_machinery::capability::SingleNode;
use bowline_machinery::csi::Driver;
use bowline_machinery::flags::duration;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Change, Context, EffectError, Effects, Identity, Pool, Ports, Queue, Recorder,
};
use bowline_machinery::{Role, RunError, Sidecar, Step, Watches};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use bowline_proto::csi::v1::plugin_capability::service::Type as Service;
use clap::ArgAction;

use super::decide::source::{cloned_from, restored_from};
use super::decide::{decide, ours, wanted_from};
use super::memory::Memory;
use super::model::{Action, Cluster, Key, Naming, Observed, OwnNode, Settings, Why};
use super::node;
use crate::indexes;

/// Intents are read again after this long, for one whose write an earlier process sent and that landed late.
const INTENTS_AGAIN: Duration = Duration::from_secs(600);

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Names of volumes begin with this and a dash
    #[arg(long, default_value = "pvc")]
    pub volume_name_prefix: String,
    /// Characters of the claim's UID in the name, dashes removed; -1 is all of it, as it is
    #[arg(long, default_value_t = -1, allow_hyphen_values = true, value_parser = uuid_length)]
    pub volume_name_uuid_length: i64,
    /// Offer the driver the selected node's topology only
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub strict_topology: bool,
    /// Offer the whole cluster's topology for volumes that bind immediately
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub immediate_topology: bool,
    /// Tell the driver the names of claim and volume
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub extra_create_metadata: bool,
    /// Mark volumes of ReadOnlyMany claims as read-only
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub controller_publish_readonly: bool,
    /// Filesystem of volumes whose class names none
    #[arg(long, default_value = "")]
    pub default_fstype: String,
    /// Refuse to make a filesystem of the snapshot of a block volume, or the other way round, unless its content allows it
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub prevent_volume_mode_conversion: bool,
    /// How often snapshots are looked at that a finalizer may have been left on; 0: never
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub snapshot_orphan_sweep_interval: Duration,
    /// Serve only the node of the environment variable NODE_NAME
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub node_deployment: bool,
    /// Let a node ask for claims that bind immediately
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub node_deployment_immediate_binding: bool,
    /// First delay before it does
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s")]
    pub node_deployment_base_delay: Duration,
    /// Longest delay
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub node_deployment_max_delay: Duration,
    /// The node of --node-deployment
    #[arg(long, env = "NODE_NAME", hide = true)]
    pub node_name: Option<String>,
    /// Name of this machine or pod in events
    #[arg(long, env = "HOSTNAME", default_value = "localhost", hide = true)]
    pub hostname: String,
}

/// Without a character of the UID, all claims would share one volume; a UID has 32.
fn uuid_length(text: &str) -> Result<i64, String> {
    let length = text.parse().ok().filter(|length| *length == -1 || (1..=32).contains(length));
    length.ok_or_else(|| format!("`{text}` is neither -1 nor a number from 1 to 32"))
}

/// The role, as its steps see it.
pub struct Provisioner {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    backoff: Backoff,
    pub(super) settings: Arc<Settings>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) attachments: Cache<VolumeAttachment>,
    /// Only with topology: without it the driver's role may not even read them.
    pub(super) topology: Option<(Cache<CSINode>, Cache<Node>)>,
    /// With `--node-deployment`: the own node.
    pub(super) own_cluster: Cluster,
    sweep_interval: Duration,
    pub(super) base_delay: Duration,
    pub(super) max_delay: Duration,
    pub(super) memory: Memory,
    pub(super) queue: Queue<Key>,
    /// Where intents are stored.
    pub(super) namespace: String,
    /// Whether people were told that they cannot be, and that they cannot be removed.
    pub(super) unstorable: AtomicBool,
    pub(super) unremovable: AtomicBool,
}

#[async_trait]
impl Role for Provisioner {
    /// Upstream's name in the journal, and in the events about populators.
    const NAME: &'static str = "external-provisioner";
    /// Of each pool, as upstream's default.
    const WORKERS: usize = 100;
    type Settings = (Sidecar, Flags);
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, (sidecar, flags): (Sidecar, Flags)) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, namespace } = sidecar;
        let effects = effects.measured(&ports.metrics, &identity.name);
        let mut settings = settings(&ports, &flags, &identity);
        let own_cluster = if flags.node_deployment {
            let missing = "the environment variable NODE_NAME must be set when using --node-deployment";
            let name = flags.node_name.clone().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| RunError::Refused(missing.to_owned()))?;
            let own = node::ask(&driver, &ports, timeout).await?;
            let cluster = node::cluster(&identity.name, &name, &own);
            settings.identity = format!("{}-{name}", settings.identity);
            let immediate_binding = flags.node_deployment_immediate_binding;
            settings.node = Some(OwnNode { name, segment: own.segment, immediate_binding });
            cluster
        } else {
            Cluster::default()
        };
        let watches_nodes = settings.topology && settings.node.is_none();
        let source = format!("{}_{}_{}", identity.name, flags.hostname, ports.host.random.uuid());
        let informers = &ports.informers;
        let role = Self {
            recorder: ports.recorder(source),
            claims: informers.of(),
            volumes: informers.of(),
            classes: informers.of(),
            attachments: informers.of(),
            topology: watches_nodes.then(|| (informers.of(), informers.of())),
            settings: Arc::new(settings),
            memory: Memory::default(),
            own_cluster,
            sweep_interval: flags.snapshot_orphan_sweep_interval,
            base_delay: flags.node_deployment_base_delay,
            max_delay: flags.node_deployment_max_delay,
            queue,
            namespace,
            unstorable: AtomicBool::new(false),
            unremovable: AtomicBool::new(false),
            ports,
            effects,
            driver,
            timeout,
            backoff,
        };
        indexes::claims(&role.claims);
        indexes::clones(&role.claims);
        indexes::volumes(&role.volumes);
        indexes::attachments(&role.attachments);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.claims, Self::claim_changed).on(&self.volumes, Self::volume_changed);
        watches.on(&self.classes, Self::class_changed).on(&self.attachments, Self::attachment_changed);
        if let Some((csi_nodes, nodes)) = &self.topology {
            watches.read(csi_nodes).read(nodes);
        }
    }
    async fn begin(&self) -> Result<(), RunError> {
        self.queue.add(Key::Intents);
        if self.settings.restores && !self.sweep_interval.is_zero() {
            self.queue.add(Key::Snapshots);
        }
        Ok(())
    }
    async fn prepare(&self, key: &Key) -> Result<(), EffectError> {
        self.draw_delay(key);
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
    fn waiting(&self, _: &Key, _: &Observed, why: &Why) {
        if let Why::Unstorable(why) = why {
            self.tell_unstorable(why);
            self.intents_read();
        }
    }
    async fn failed(&self, key: &Key, error: &EffectError) {
        match key {
            Key::Claim(uid) => {
                let record = self.memory.note_failure(uid);
                // A volume that waits to be saved was provisioned well, and a Lease is no concern of the claim's owner.
                let quiet = record.unsaved.is_some() || record.unremoved;
                let stored = record.stored.map(|stored| stored.intent.claim.clone());
                if let Some(claim) = self.claim(uid).or(stored).filter(|_| !quiet) {
                    self.tell_failure(&claim, &error.message);
                }
            }
            Key::Volume(name) => {
                let released = |volume: &Arc<PersistentVolume>| volume_phase(volume) == RELEASED;
                if let Some(volume) = self.volumes.named(name).filter(released) {
                    self.recorder.warning(volume.as_ref(), "VolumeFailedDelete", error.message.clone());
                }
            }
            Key::Source(_) | Key::Snapshot(_) | Key::Snapshots | Key::Intents => {}
        }
    }
    fn settled(&self, key: &Key) {
        match key {
            Key::Claim(uid) if self.memory.claim(uid).stored.is_none() => self.memory.forget_claim(uid),
            Key::Volume(name) if self.volumes.named(name).is_none() => self.memory.forget_volume(name),
            Key::Intents => self.intents_read(),
            Key::Snapshots => self.memory.note_handed_on(false),
            Key::Claim(_) | Key::Volume(_) | Key::Source(_) | Key::Snapshot(_) => {}
        }
    }
    /// How long a request that the driver called invalid still rests.
    fn look_again(&self, key: &Key) -> Option<Duration> {
        let uid = match key {
            Key::Claim(uid) => uid,
            Key::Volume(_) | Key::Source(_) | Key::Snapshot(_) => return None,
            Key::Snapshots => return Some(self.sweep_interval),
            Key::Intents => return Some(INTENTS_AGAIN),
        };
        if let Some(left) = self.bid_left(uid) {
            return Some(left);
        }
        let (until, _) = self.memory.claim(uid).slow?;
        Some(until.saturating_sub(self.ports.host.uptime.uptime())).filter(|left| !left.is_zero())
    }
    /// A driver that is slow to delete must not hold up new volumes.
    fn pool(&self, key: &Key) -> Pool {
        let name = match key {
            Key::Claim(_) | Key::Source(_) | Key::Intents => "claims",
            Key::Snapshot(_) | Key::Snapshots => "snapshots",
            Key::Volume(_) => "volumes",
        };
        Pool::new(name, Self::WORKERS)
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

fn settings(ports: &Ports, flags: &Flags, identity: &Identity) -> Settings {
    let multi_writer = identity.can(Rpc::SingleNodeMultiWriter);
    let (now, number) = (ports.host.clock.now(), ports.host.random.next_u64() % 10_000);
    Settings {
        driver: identity.name.clone(),
        controller: identity.has(Service::ControllerService),
        creates: identity.can(Rpc::CreateDeleteVolume),
        restores: identity.can(Rpc::CreateDeleteSnapshot),
        clones: identity.can(Rpc::CloneVolume),
        modifies: identity.can(Rpc::ModifyVolume),
        topology: identity.has(Service::VolumeAccessibilityConstraints),
        single_node: if multi_writer { SingleNode::MultiWriter } else { SingleNode::Plain },
        identity: format!("{}-{number}-{}", now.as_millisecond(), identity.name),
        naming: Naming {
            prefix: flags.volume_name_prefix.clone(),
            uuid_length: usize::try_from(flags.volume_name_uuid_length).ok(),
        },
        strict_topology: flags.strict_topology,
        immediate_topology: flags.immediate_topology,
        extra_create_metadata: flags.extra_create_metadata,
        controller_publish_readonly: flags.controller_publish_readonly,
        default_fstype: flags.default_fstype.clone(),
        prevent_mode_conversion: flags.prevent_volume_mode_conversion,
        node: None,
    }
}

/// Whether a claim goes once it is not cloned any more.
fn guarded(claim: &PersistentVolumeClaim) -> bool {
    claim.deleting() && claim.has_finalizer(keys::CLONING_PROTECTION)
}

/// Which keys a change concerns.
impl Provisioner {
    /// The last attachment may have been what kept a volume from being deleted.
    fn attachment_changed(&self, change: &Change<VolumeAttachment>, queue: &Queue<Key>) {
        let gone = change.latest().filter(|_| change.new.is_none());
        if let Some(volume) = gone.and_then(|a| volume::attachment_volume(a)) {
            queue.add(Key::Volume(volume.to_owned()));
        }
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<Key>) {
        let Some(claim) = change.latest() else { return };
        if wanted_from(claim) == Some(&self.settings.driver) {
            queue.add(Key::Claim(claim.uid().to_owned()));
        }
        if self.settings.clones {
            self.sources_changed(change, claim, queue);
        }
        self.restore_changed(change, queue);
    }

    /// A snapshot may be released when the claim that was restored from it is bound or gone.
    fn restore_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<Key>) {
        let pending = |claim: &Arc<PersistentVolumeClaim>| matches!(claim_phase(claim), "" | PENDING);
        let settled = !change.new.as_ref().is_some_and(pending);
        let Some(claim) = change.old.as_ref().filter(|claim| settled && pending(claim)) else { return };
        let ours = wanted_from(claim) == Some(&self.settings.driver);
        let source = restored_from(claim).filter(|_| ours && self.settings.restores);
        source.into_iter().for_each(|source| queue.add(Key::Snapshot(source)));
    }

    /// A source may be released when it is deleted, or when one of its clones is bound or gone; its clones wait until it is
    /// bound.
    fn sources_changed(
        &self,
        change: &Change<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
        queue: &Queue<Key>,
    ) {
        if guarded(claim) {
            queue.add(Key::Source(claim.key()));
        }
        let sources = change.sides().filter_map(|side| cloned_from(side));
        sources.for_each(|source| queue.add(Key::Source(source)));
        let bound = |claim: &Arc<PersistentVolumeClaim>| claim_phase(claim) == BOUND;
        if change.new.as_ref().is_some_and(bound) && !change.old.as_ref().is_some_and(bound) {
            let clones = self.claims.indexed(indexes::CLONES_OF_CLAIM, &claim.key().to_string()).into_iter();
            clones
                .filter(|c| claim_volume(c).is_empty() && wanted_from(c) == Some(&self.settings.driver))
                .for_each(|clone| queue.add(Key::Claim(clone.uid().to_owned())));
        }
    }

    /// What earlier processes stored is known now: sources that nothing copies from can go.
    fn intents_read(&self) {
        let first = self.memory.note_intents_read();
        if first && self.settings.restores && !self.sweep_interval.is_zero() {
            self.queue.add(Key::Snapshots);
        }
        if first && self.settings.clones {
            let waiting = self.claims.list().into_iter().filter(|claim| guarded(claim));
            waiting.for_each(|claim| self.queue.add(Key::Source(claim.key())));
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<Key>) {
        if let Some(volume) = change.latest().filter(|volume| ours(&self.settings.driver, volume)) {
            queue.add(Key::Volume(volume.name().to_owned()));
        }
    }

    fn class_changed(&self, change: &Change<StorageClass>, queue: &Queue<Key>) {
        let Some(class) = &change.new else { return };
        let waiting = self.claims.indexed(indexes::CLAIMS_OF_CLASS, class.name()).into_iter();
        waiting
            .filter(|c| claim_volume(c).is_empty() && wanted_from(c) == Some(&self.settings.driver))
            .for_each(|claim| queue.add(Key::Claim(claim.uid().to_owned())));
    }
}
