//! The role: flags, watches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Event, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, node, volume};
use bowline_machinery::csi::Driver;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Pool, Ports, Queue, Recorder};
use bowline_machinery::{Identity, Role, RunError, Scope, Sidecar, Step, Watches, flags};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use bowline_proto::csi::v1::plugin_capability::service::Type as Service;
use clap::ArgAction;

use super::decide::decide;
use super::memory::Memory;
use super::model::{Action, Key, NODE_NOT_READY, NodeState, Observed, Why};
use crate::indexes;

/// Reasons of events, which alerts are matched by.
pub(super) const ABNORMAL: &str = "VolumeConditionAbnormal";
pub(super) const NORMAL: &str = "VolumeConditionNormal";
pub(super) const NODE_FAILED: &str = "NodeFailed";
pub(super) const NODE_RECOVERED: &str = "NodeRecovered";

/// Warnings that a volume is abnormal, by the UID of the claim.
pub(super) const WARNINGS_BY_CLAIM: &str = "volume-warnings-by-claim";

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Time between two checks of one volume by ControllerGetVolume, for every ten volumes
    #[arg(long, value_name = "DURATION", value_parser = flags::duration, default_value = "1m")]
    pub monitor_interval: Duration,
    /// Time between two ListVolumes
    #[arg(long, value_name = "DURATION", value_parser = flags::duration, default_value = "5m")]
    pub list_volumes_interval: Duration,
    /// Longest time between two checks of one volume by ControllerGetVolume, however many there are
    #[arg(long, value_name = "DURATION", value_parser = flags::duration, default_value = "5m")]
    pub volume_list_add_interval: Duration,
    /// Time after which the claims of a node that stays not ready are told again
    #[arg(long, value_name = "DURATION", value_parser = flags::duration, default_value = "5m")]
    pub node_list_add_interval: Duration,
    /// Tell claims of nodes that fail
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub enable_node_watcher: bool,
}

/// The role, as its steps see it.
pub struct HealthMonitor {
    pub(super) ports: Ports,
    flags: Flags,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) queue: Queue<Key>,
    pub(super) driver: Driver,
    pub(super) timeout: Duration,
    backoff: Backoff,
    pub(super) driver_name: String,
    /// ListVolumes is preferred.
    pub(super) lists: bool,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) events: Cache<Event>,
    pub(super) nodes: Option<Cache<Node>>,
    pub(super) pods: Option<Cache<Pod>>,
    pub(super) memory: Memory,
}

#[async_trait]
impl Role for HealthMonitor {
    const NAME: &'static str = "external-health-monitor";
    /// Upstream's default.
    const WORKERS: usize = 10;
    type Settings = (Sidecar, Flags);
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, (sidecar, flags): (Sidecar, Flags)) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Sidecar { driver, identity, timeout, backoff, .. } = sidecar;
        supported(&identity)?;
        // Of all events of a cluster only these are read.
        let warnings = Scope::fields(format!("reason={ABNORMAL}"));
        let restricted = ports.informers.restrict::<Event>(warnings);
        restricted.map_err(|error| RunError::Refused(error.to_string()))?;
        let role = Self {
            effects: effects.measured(&ports.metrics, &identity.name),
            recorder: ports.recorder(format!("csi-pv-monitor-controller-{}", identity.name)),
            lists: identity.can(Rpc::ListVolumes),
            driver_name: identity.name,
            volumes: ports.informers.of(),
            claims: ports.informers.of(),
            events: ports.informers.of(),
            nodes: flags.enable_node_watcher.then(|| ports.informers.of()),
            pods: flags.enable_node_watcher.then(|| ports.informers.of()),
            memory: Memory::default(),
            ports,
            flags,
            queue,
            driver,
            timeout,
            backoff,
        };
        indexes::volumes(&role.volumes);
        role.events.index(WARNINGS_BY_CLAIM, warned_claim);
        if let Some(pods) = &role.pods {
            indexes::pods(pods);
        }
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.read(&self.claims).read(&self.events);
        if self.lists {
            watches.read(&self.volumes);
        } else {
            watches.on(&self.volumes, Self::volume_changed);
        }
        if let Some(pods) = &self.pods {
            watches.read(pods);
        }
        if let Some(nodes) = &self.nodes {
            watches.on(nodes, Self::node_changed);
        }
    }
    async fn begin(&self) -> Result<(), RunError> {
        if self.lists {
            self.queue.add(Key::List);
        }
        Ok(())
    }
    async fn prepare(&self, key: &Key) -> Result<(), EffectError> {
        self.note_node(key);
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
    fn settled(&self, key: &Key) {
        match key {
            // The next one is due after `look_again`.
            Key::List => self.memory.set_listed(false),
            Key::Volume(name) => self.memory.forget_reading(name),
            Key::Node(name) => {
                if self.nodes.as_ref().is_some_and(|nodes| nodes.named(name).is_none()) {
                    self.memory.forget_node(name);
                }
            }
        }
    }
    fn look_again(&self, key: &Key) -> Option<Duration> {
        match key {
            Key::List => Some(self.flags.list_volumes_interval),
            Key::Volume(name) => self.next_check(name),
            Key::Node(name) => self.next_look(name),
        }
    }
    fn pool(&self, key: &Key) -> Pool {
        match key {
            Key::List => Pool::new("list", 1),
            Key::Volume(_) => Pool::new("volumes", Self::WORKERS),
            Key::Node(_) => Pool::new("nodes", 1),
        }
    }
    fn backoff(&self) -> Backoff {
        self.backoff
    }
}

impl HealthMonitor {
    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<Key>) {
        let phase = |volume: &Option<Arc<PersistentVolume>>| {
            volume.as_ref().map(|volume| volume::volume_phase(volume).to_owned())
        };
        // The first check follows at once; a volume that only changes is checked when it is due.
        let ours = change.new.as_ref().filter(|volume| self.handle(volume).is_some());
        if let Some(volume) = ours.filter(|_| phase(&change.old) != phase(&change.new)) {
            queue.add(Key::Volume(volume.name().to_owned()));
        }
    }

    fn node_changed(&self, change: &Change<Node>, queue: &Queue<Key>) {
        let ready = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node::ready(node));
        if let Some(node) = change.latest().filter(|_| ready(&change.old) != ready(&change.new)) {
            queue.add(Key::Node(node.name().to_owned()));
        }
    }

    /// Names and handles of our driver's volumes.
    pub(super) fn volumes_of_driver(&self) -> Vec<(String, String)> {
        let ours = self.volumes.indexed(indexes::VOLUMES_OF_DRIVER, &self.driver_name);
        let named = |volume: Arc<PersistentVolume>| Some((volume.name().to_owned(), self.handle(&volume)?));
        ours.into_iter().filter_map(named).collect()
    }

    /// Ten volumes per interval, as upstream's ten workers do, but none later than `--volume-list-add-interval`.
    fn next_check(&self, name: &str) -> Option<Duration> {
        let volume = self.volumes.named(name).filter(|volume| self.handle(volume).is_some())?;
        if self.lists || volume.deleting() || volume::volume_phase(&volume) != volume::BOUND {
            return None;
        }
        let count = self.volumes.indexed_len(indexes::VOLUMES_OF_DRIVER, &self.driver_name);
        Some(period(&self.flags, count))
    }

    fn next_look(&self, name: &str) -> Option<Duration> {
        let Some(Observed::Node(seen)) = self.see(&Key::Node(name.to_owned())) else { return None };
        let NodeState::NotReady(lasts) = seen.state else { return None };
        let wait = if seen.failed { self.flags.node_list_add_interval } else { Duration::ZERO };
        // Not before it lasts longer than that.
        let rest = NODE_NOT_READY.saturating_sub(lasts) + Duration::from_secs(1);
        Some(rest.max(wait))
    }
}

/// Time between two checks of one of so many volumes.
pub(super) fn period(flags: &Flags, volumes: usize) -> Duration {
    let rounds = u32::try_from(volumes.div_ceil(HealthMonitor::WORKERS)).unwrap_or(u32::MAX).max(1);
    let longest = flags.volume_list_add_interval.max(flags.monitor_interval);
    flags.monitor_interval.saturating_mul(rounds).min(longest).max(Duration::from_secs(1))
}

/// The UID of the claim that a warning is about.
pub(super) fn warned_claim(event: &Event) -> Vec<String> {
    let warns = event.type_.as_deref() == Some("Warning") && event.reason.as_deref() == Some(ABNORMAL);
    event.involved_object.uid.clone().filter(|_| warns).into_iter().collect()
}

pub(super) fn supported(identity: &Identity) -> Result<(), RunError> {
    let lacks = |what: &str| {
        let name = &identity.name;
        Err(RunError::Refused(format!(
            "CSI driver {name} does not have {what}, without which volumes cannot be monitored; leave this sidecar out"
        )))
    };
    if !identity.has(Service::ControllerService) {
        return lacks("CONTROLLER_SERVICE");
    }
    if !identity.can(Rpc::VolumeCondition) {
        return lacks("VOLUME_CONDITION");
    }
    if !identity.can(Rpc::ListVolumes) && !identity.can(Rpc::GetVolume) {
        return lacks("LIST_VOLUMES or GET_VOLUME");
    }
    Ok(())
}
