//! Flags, caches and the queue.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSIDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{
    Cache, EffectError, Effects, Keyed, Ports, Queue, Recorder, RunError, Step, Verdict, flags,
};

use super::decide::{decide, decide_on};
use super::memory::Memory;
use super::report::Reports;
use super::world::{Action, Key, Observed, OnNode, Why};

/// Upstream's name in events.
const COMPONENT: &str = "attachdetach-controller";
/// Volumes worked on at once. Many may wait for one node's report, which they then share.
const WORKERS: usize = 256;

/// Flags with upstream's names and defaults.
#[derive(Debug, Clone, clap::Args)]
pub struct Flags {
    /// Never detach from an unready node what it may still have mounted
    #[arg(long)]
    pub disable_force_detach_on_timeout: bool,
    /// How long an unready or deleted node keeps a volume that no pod wants; upstream has no flag for it
    #[arg(long, default_value = "6m", value_parser = flags::duration)]
    pub attach_detach_max_wait_for_unmount: Duration,
    /// Accepted for compatibility: attachments are watched, not compared from time to time
    #[arg(long, hide = true, default_value = "1m", value_parser = flags::duration)]
    pub attach_detach_reconcile_sync_period: Duration,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    pub disable_attach_detach_reconcile_sync: bool,
}

/// The role, as its steps see it.
pub(super) struct Controller {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) queue: Queue<Key>,
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

/// Keeps attachments equal to what pods want until stopped.
pub async fn run(ports: Ports, flags: Flags) -> Result<(), RunError> {
    let role = Arc::new(Controller {
        effects: ports.effects(COMPONENT),
        recorder: ports.recorder(COMPONENT),
        queue: Queue::new(Backoff::VOLUME),
        pods: ports.informers.of(),
        claims: ports.informers.of(),
        volumes: ports.informers.of(),
        attachments: ports.informers.of(),
        nodes: ports.informers.of(),
        drivers: ports.informers.of(),
        memory: Memory::default(),
        reports: Reports::default(),
        ports: ports.clone(),
        flags,
    });
    role.watch();
    role.pods.synced().await;
    role.claims.synced().await;
    role.volumes.synced().await;
    role.attachments.synced().await;
    role.nodes.synced().await;
    role.drivers.synced().await;
    let queue = role.queue.clone();
    let work = move |key: Key| {
        let role = role.clone();
        async move { role.work(&key).await }
    };
    queue.run(WORKERS, ports.stop.clone(), work).await;
    Ok(())
}

impl Controller {
    async fn work(&self, key: &Key) -> Verdict {
        if key.node.is_none()
            && let Some(seen) = self.see(&key.volume)
            && seen.shared
        {
            self.split(&seen);
            return Verdict::Done;
        }
        match reconcile(self, key).await {
            Verdict::Done => self.alarm(key).map_or(Verdict::Done, Verdict::After),
            other => other,
        }
    }

    /// Nodes of a shared volume do not wait for each other.
    fn split(&self, seen: &Observed) {
        let busy = seen.nodes.keys().filter(|node| decide_on(seen, node) != Step::Done);
        busy.for_each(|node| {
            self.queue.add(Key { volume: seen.key.clone(), node: Some(node.clone()) });
        });
    }

    /// When the first safety timer of what is still unwanted and in use ends.
    fn alarm(&self, key: &Key) -> Option<Duration> {
        let seen = self.narrowed(key)?;
        let limit = seen.force_after?;
        let remaining = |on: &OnNode| limit.checked_sub(on.unwanted_for?).filter(|left| !left.is_zero());
        seen.nodes.values().filter_map(remaining).min()
    }

    fn narrowed(&self, key: &Key) -> Option<Observed> {
        let mut seen = self.see(&key.volume)?;
        if let Some(only) = &key.node {
            // Never a part of a volume that only one node may have.
            if !seen.shared {
                return None;
            }
            seen.nodes.retain(|node, _| node == only);
        }
        Some(seen)
    }

    pub(super) fn force_after(&self) -> Option<Duration> {
        let limit = self.flags.attach_detach_max_wait_for_unmount;
        (!self.flags.disable_force_detach_on_timeout).then_some(limit)
    }
}

#[async_trait]
impl Keyed for Controller {
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(self.narrowed(key))
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
    async fn failed(&self, key: &Key, error: &EffectError) {
        // Pods are told when it was the attachment that could not be made.
        if let Some(seen) = self.narrowed(key)
            && let Step::Do(Action::Attach { node }) = decide(&seen)
        {
            self.tell_failed(&seen, &node, &error.message);
        }
    }
}
