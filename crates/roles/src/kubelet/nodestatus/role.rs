//! The role: watches of the node's own objects, and the two safety timers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSINode, Meta, Node, ObjectKey};
use bowline_machinery::queue::{Backoff, Verdict};
use bowline_machinery::role::reconcile;
use bowline_machinery::{Cache, Context, EffectError, Effects, Ports, Queue, Role, RunError, Step, Watches};
use k8s_openapi::api::core::v1::Taint;

use super::decide::decide;
use super::in_use::InUse;
use super::machine::Machine;
use super::memory::Memory;
use super::model::{Action, Key, LEASE_RENEWAL, LOOK, Observed, Why};

/// How long the last report may take, and the pause before it is tried again.
const LAST_REPORT: Duration = Duration::from_secs(5);
const REPORT_AGAIN: Duration = Duration::from_millis(200);

/// Turns the node to not ready before it stops; clones share it.
#[derive(Clone, Default)]
pub struct Switch {
    off: Arc<AtomicBool>,
    /// No last report is sent.
    silent: Arc<AtomicBool>,
    /// The API server has the node's last report.
    reported: Arc<AtomicBool>,
    wake: Arc<Mutex<Option<Queue<Key>>>>,
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("off", &self.off).finish_non_exhaustive()
    }
}

impl Switch {
    /// The node is reported as not ready from now on.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = wake.as_ref() {
            queue.add(Key::Node);
        }
    }

    /// The containers are left to the next process, which says how the node is.
    pub fn leave(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Whether the API server has the node's last report: not ready, and what is still mounted.
    pub fn reported(&self) -> bool {
        self.reported.load(Ordering::SeqCst)
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    fn wakes(&self, queue: Queue<Key>) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    }
}

/// What the node status shares with the other parts of the kubelet.
pub struct Settings {
    pub node_name: String,
    pub kubelet_port: Option<u16>,
    pub address: IpAddr,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub pods_max: u32,
    /// Whether the node is reported as not ready at the end.
    pub reports_stop: bool,
    pub register: bool,
    pub in_use: InUse,
    pub switch: Switch,
}

/// Registers the node and keeps its status until stopped; then reports it as not ready.
pub struct Status {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) node_name: String,
    pub(super) machine: Machine,
    pub(super) address: IpAddr,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) register: bool,
    reports_stop: bool,
    pub(super) nodes: Cache<Node>,
    pub(super) csi_nodes: Cache<CSINode>,
    pub(super) in_use: InUse,
    pub(super) switch: Switch,
    pub(super) memory: Memory,
    queue: Queue<Key>,
}

#[async_trait]
impl Role for Status {
    const NAME: &'static str = "nodestatus";
    const COMPONENT: &'static str = "kubelet";
    /// The node and its lease.
    const WORKERS: usize = 2;
    type Settings = Settings;
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Settings { node_name, kubelet_port, address, labels, taints, pods_max, .. } = settings;
        let Settings { reports_stop, register, in_use, switch, .. } = settings;
        let wake = queue.clone();
        in_use.on_wanted(move || wake.add(Key::Node));
        switch.wakes(queue.clone());
        Ok(Self {
            machine: Machine::read(&ports.host, kubelet_port, pods_max).await,
            nodes: ports.informers.of(),
            csi_nodes: ports.informers.of(),
            memory: Memory::default(),
            address,
            labels,
            taints,
            reports_stop,
            register,
            ports,
            effects,
            node_name,
            in_use,
            switch,
            queue,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.nodes, |role, change, queue| {
            if change.latest().is_some_and(|node| node.name() == role.node_name) {
                queue.add(Key::Node);
                // The lease waits for its node.
                if change.old.is_none() {
                    queue.add(Key::Lease);
                }
            }
        });
        watches.on(&self.csi_nodes, |role, change, queue| {
            if change.latest().is_some_and(|node| node.name() == role.node_name) {
                queue.add(Key::Node);
            }
        });
    }
    async fn begin(&self) -> Result<(), RunError> {
        [Key::Node, Key::Lease].into_iter().for_each(|key| self.queue.add(key));
        Ok(())
    }
    async fn prepare(&self, key: &Key) -> Result<(), EffectError> {
        self.read_unwatched(key).await
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        self.see(key).await.map(Some)
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn look_again(&self, key: &Key) -> Option<Duration> {
        Some(match key {
            Key::Node => LOOK,
            Key::Lease => LEASE_RENEWAL,
        })
    }
    /// Upstream's for the lease: the node must be heard of again soon after the API server is back.
    fn backoff(&self) -> Backoff {
        Backoff { start: Duration::from_millis(200), max: Duration::from_secs(7) }
    }
    /// For a moment: what stops us may have stopped the API server, too. The watch has ended with the process, so what
    /// others changed since is read.
    async fn finish(&self) {
        if !self.reports_stop || self.switch.silent.load(Ordering::SeqCst) {
            return;
        }
        self.switch.turn_off();
        let node = ObjectKey::cluster(&self.node_name);
        let last_report = async {
            loop {
                match reconcile(self, &Key::Node).await {
                    Verdict::Stale if self.effects.read_through::<Node>(&node).await.is_ok() => {}
                    Verdict::Stale | Verdict::Retry => tokio::time::sleep(REPORT_AGAIN).await,
                    _ => break,
                }
            }
            self.switch.reported.store(true, Ordering::SeqCst);
        };
        if tokio::time::timeout(LAST_REPORT, last_report).await.is_err() {
            tracing::warn!(node = self.node_name, "the API server did not take the node's last report");
        }
    }
}
