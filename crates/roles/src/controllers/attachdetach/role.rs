//! The role: flags, watches, timers.

use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSIDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_machinery::flags;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Context, EffectError, Effects, Ports, Recorder, Role, RunError, Step, Watches,
};

use super::decide::decide;
use super::memory::Memory;
use super::model::{Action, Key, Observed, OnNode, Why};
use super::report::Reports;
use crate::indexes;

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Never detach from an unready node what it may still have mounted
    #[arg(long)]
    pub disable_force_detach_on_timeout: bool,
    /// How long an unready or deleted node keeps a volume that no pod wants; upstream has no flag for it
    #[arg(long, default_value = "6m", value_parser = flags::duration)]
    pub attach_detach_max_wait_for_unmount: Duration,
}

/// The role, as its steps see it.
pub struct Controller {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) pods: Cache<Pod>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) attachments: Cache<VolumeAttachment>,
    pub(super) nodes: Cache<Node>,
    pub(super) drivers: Cache<CSIDriver>,
    pub(super) memory: Memory,
    pub(super) reports: Reports,
    flags: Flags,
}

#[async_trait]
impl Role for Controller {
    /// Upstream's name in events.
    const NAME: &'static str = "attachdetach-controller";
    /// Many may wait for one node's report, which they then share.
    const WORKERS: usize = 256;
    type Settings = Flags;
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, flags: Flags) -> Result<Self, RunError> {
        let informers = &context.ports.informers;
        let role = Self {
            pods: informers.of(),
            claims: informers.of(),
            volumes: informers.of(),
            attachments: informers.of(),
            nodes: informers.of(),
            drivers: informers.of(),
            effects: context.effects,
            recorder: context.recorder,
            memory: Memory::default(),
            reports: Reports::default(),
            ports: context.ports,
            flags,
        };
        indexes::attachments(&role.attachments);
        indexes::volumes(&role.volumes);
        indexes::pods(&role.pods);
        indexes::nodes(&role.nodes);
        Ok(role)
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.pods, Self::pod_changed).on(&self.claims, Self::claim_changed);
        watches.on(&self.volumes, Self::volume_changed).on(&self.attachments, Self::attachment_changed);
        watches.on(&self.nodes, Self::node_changed).on(&self.drivers, Self::driver_changed);
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(key))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
    fn waiting(&self, key: &Key, seen: &Observed, why: &Why) {
        self.memory.keep(&key.volume, key.node.as_deref(), &seen.nodes);
        if let Why::Attaching { node } = why {
            self.memory.change(&key.volume, node, |note| note.tell_attached = true);
        }
    }
    fn settled(&self, key: &Key) {
        let nodes = self.see(key).map(|seen| seen.nodes).unwrap_or_default();
        self.memory.keep(&key.volume, key.node.as_deref(), &nodes);
    }
    async fn failed(&self, key: &Key, error: &EffectError) {
        // Pods are told when it was the attachment that could not be made.
        if let Some(seen) = self.see(key)
            && let Step::Do(Action::Attach { node }) = decide(&seen)
        {
            self.tell_failed(&seen, &node, &error.message);
        }
    }
    /// When the first safety timer of what is still unwanted and in use ends.
    fn look_again(&self, key: &Key) -> Option<Duration> {
        let seen = self.see(key)?;
        let limit = seen.force_after?;
        let remaining = |on: &OnNode| limit.checked_sub(on.unwanted_for?).filter(|left| !left.is_zero());
        seen.nodes.values().filter_map(remaining).min()
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
}

impl Controller {
    pub(super) fn force_after(&self) -> Option<Duration> {
        let limit = self.flags.attach_detach_max_wait_for_unmount;
        (!self.flags.disable_force_detach_on_timeout).then_some(limit)
    }
}
