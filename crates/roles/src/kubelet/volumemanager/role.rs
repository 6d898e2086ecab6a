//! The role: which change concerns which volume.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bowline_api::{CSIDriver, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, node, pod, volume};
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Change, Context, EffectError, Effects, Pool, Ports, Queue, Recorder, Role};
use bowline_machinery::{RunError, Step, Watches};
use tokio::sync::oneshot;

use super::decide::{decide, next_report};
use super::desired;
use super::memory::Memory;
use super::model::{Action, Observed, Why};
use super::mounts::Mounts;
use super::paths::Paths;
use super::reconstruct::reconstruct;
use super::sources::Sources;
use super::stuck;
use crate::indexes::{self, PODS_BY_UID};
use crate::kubelet::nodestatus::InUse;
use crate::kubelet::pluginmanager::Drivers;
use crate::kubelet::{Alarms, PodRecords, Tenants, show};

/// A publication that is due and cannot be made, since the driver is away, is looked at again no sooner.
const REPUBLISH_RETRY: std::time::Duration = std::time::Duration::from_secs(1);

/// What the volume manager shares with the other parts of the kubelet.
pub struct Settings {
    pub node_name: String,
    pub kubelet_dir: PathBuf,
    pub drivers: Drivers,
    pub in_use: InUse,
    pub tenants: Tenants,
    pub records: PodRecords,
    /// Gets the view, once the mounts of an earlier process are known.
    pub view: oneshot::Sender<Mounts>,
}

/// Mounts and unmounts the volumes of pods through their drivers.
pub struct Manager {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) node_name: String,
    pub(super) paths: Paths,
    pub(super) pods: Cache<Pod>,
    pub(super) sources: Sources,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) csi_drivers: Cache<CSIDriver>,
    pub(super) nodes: Cache<Node>,
    pub(super) memory: Memory,
    pub(super) mounts: Mounts,
    pub(super) drivers: Drivers,
    pub(super) in_use: InUse,
    pub(super) tenants: Tenants,
    pub(super) records: PodRecords,
    pub(super) alarms: Alarms,
    queue: Queue<String>,
    view: Mutex<Option<oneshot::Sender<Mounts>>>,
}

#[async_trait]
impl Role for Manager {
    const NAME: &'static str = "volumemanager";
    const COMPONENT: &'static str = "kubelet";
    /// Volumes of one driver that are worked on at the same time.
    const WORKERS: usize = 64;
    type Settings = Settings;
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, recorder, queue } = context;
        let Settings { node_name, kubelet_dir, drivers, in_use, tenants, records, view } = settings;
        let informers = &ports.informers;
        let (memory, paths) = (Memory::default(), Paths::new(&kubelet_dir));
        let pods = informers.of::<Pod>();
        indexes::pods(&pods);
        indexes::pods_by_uid(&pods);
        indexes::pods_by_inline_volume(&pods);
        let sources = Sources::new(&ports, pods.clone());
        indexes::volumes(sources.volumes());
        Ok(Self {
            claims: sources.claims().clone(),
            volumes: sources.volumes().clone(),
            csi_drivers: informers.of(),
            nodes: informers.of(),
            mounts: Mounts::new(sources.clone(), memory.clone(), paths.clone()),
            alarms: Alarms::new(queue.clone()),
            view: Mutex::new(Some(view)),
            ports,
            effects,
            recorder,
            node_name,
            paths,
            memory,
            drivers,
            in_use,
            tenants,
            records,
            queue,
            pods,
            sources,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.pods, |role, change, _| {
            change.sides().for_each(|pod| role.sources.follow(pod.uid()));
            if let (Some(old), Some(new)) = (&change.old, &change.new)
                && (&old.metadata.annotations, &old.metadata.labels)
                    != (&new.metadata.annotations, &new.metadata.labels)
            {
                role.sources.refresh(new);
                role.republish_now(new);
            }
            change.sides().for_each(|pod| role.wake_pod(pod));
        });
        watches.on(&self.volumes, |_, change, queue| {
            change.sides().filter_map(|pv| volume::unique_name(pv)).for_each(|name| queue.add(name));
        });
        let role = watches.role();
        self.sources.on_change(move |uid| role.upgrade().iter().for_each(|role| role.wake_sources(uid)));
        watches.on(&self.nodes, |role, change, _| role.wake_node(change));
        watches.on(&self.csi_drivers, |role, change, _| {
            change.latest().into_iter().for_each(|driver| role.wake_driver(driver.name()));
        });
        let role = watches.role();
        self.drivers.on_change(move |driver| role.upgrade().iter().for_each(|role| role.wake_driver(driver)));
        let queue = self.queue.clone();
        self.in_use.on_accepted(move |name| queue.add(name.to_owned()));
        let role = watches.role();
        self.tenants.on_change(move |uid| role.upgrade().iter().for_each(|role| role.wake_tenant(uid)));
    }
    /// Finds the mounts of an earlier process. A record that cannot be read is made up for by the volume's object.
    async fn begin(&self) -> Result<(), RunError> {
        self.sources.looked_up().await;
        let known = self.records.uids();
        reconstruct(&self.ports.host, &self.paths, &known, &self.volumes, &self.memory).await?;
        stuck::watch(&self.ports, self.memory.clone());
        show(&self.view, self.mounts.clone());
        self.list_in_use();
        Ok(())
    }
    async fn prepare(&self, volume: &String) -> Result<(), EffectError> {
        self.remember(volume);
        Ok(())
    }
    async fn observe(&self, volume: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.seen(volume))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, volume: &String, seen: &Observed, _: &Why) {
        if let Some(at) = next_report(seen) {
            self.alarms.set(volume, at, seen.now);
        }
    }
    /// One stuck driver does not hold up the others.
    fn pool(&self, volume: &String) -> Pool {
        let driver = match bowline_api::name::split_unique_volume(volume) {
            Some((driver, _)) => Some(driver.to_owned()),
            None => self.identity(volume, &self.asked(volume)).map(|(driver, _)| driver),
        };
        Pool::new(driver.unwrap_or_default(), Self::WORKERS)
    }
    fn look_again(&self, volume: &String) -> Option<std::time::Duration> {
        let due = self.memory.get(volume)?.mounts.values().filter_map(|mount| mount.republish_at).min()?;
        Some(due.saturating_sub(self.ports.host.uptime.uptime()).max(REPUBLISH_RETRY))
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
}

/// From what changed to the volumes to look at.
impl Manager {
    /// Before the list may shrink, it holds all that is here and all that is wanted (reference kube-core.md 9.3.2).
    fn list_in_use(&self) {
        for name in self.memory.names() {
            let driver = self.memory.get(&name).map(|v| v.driver).unwrap_or_default();
            if self.attachable(&name, &driver) {
                self.in_use.insert(&name);
            }
            self.queue.add(name);
        }
        for pod in self.pods.list().iter().filter(|pod| self.here(pod) && !pod::terminated(pod)) {
            for found in self.resolved(pod) {
                // Known to the memory, so that it leaves the list again should the pod end meanwhile.
                self.memory.found(&found.volume, &found.driver, &found.handle);
                if self.attachable(&found.volume, &found.driver) {
                    self.in_use.insert(&found.volume);
                }
                self.queue.add(found.volume);
            }
        }
        self.in_use.complete();
    }

    /// What leads to a volume of those that the pod asks for.
    fn resolved(&self, pod: &Pod) -> Vec<desired::Resolved> {
        let claimed = desired::claimed(pod);
        let claimed = claimed.iter().filter_map(|claimed| self.mounts.resolve(pod, claimed).ok());
        claimed.chain(desired::inline(pod).into_iter().filter_map(|(_, found)| found.ok())).collect()
    }

    fn here(&self, pod: &Pod) -> bool {
        pod::node_name(pod) == self.node_name
    }

    fn wake_pod(&self, pod: &Pod) {
        if !self.here(pod) {
            return;
        }
        self.resolved(pod).into_iter().for_each(|found| self.queue.add(found.volume));
        self.memory.of_pod(pod.uid()).into_iter().for_each(|name| self.queue.add(name));
    }

    /// What stood in the way of the pod's volumes may have changed, even if no mount does.
    fn wake_sources(&self, uid: &str) {
        for pod in self.pods.indexed(PODS_BY_UID, uid) {
            self.wake_pod(&pod);
        }
        self.memory.changed(uid);
    }

    /// Only volumes whose attachment changed: the cost of an event does not grow with their number.
    fn wake_node(&self, change: &Change<Node>) {
        if change.latest().is_none_or(|n| n.name() != self.node_name) {
            return;
        }
        let attached = |side: &Option<Arc<Node>>| -> BTreeSet<String> {
            let node = side.as_deref();
            node.into_iter().flat_map(node::volumes_attached).map(str::to_owned).collect()
        };
        let (old, new) = (attached(&change.old), attached(&change.new));
        old.symmetric_difference(&new).for_each(|name| self.queue.add(name.clone()));
        // A volume may wait for a label that its node affinity asks for.
        let labels = |side: &Option<Arc<Node>>| side.as_ref().map(|node| node.metadata.labels.clone());
        if labels(&change.old) != labels(&change.new) {
            self.memory.names().into_iter().for_each(|name| self.queue.add(name));
        }
    }

    /// As upstream, which publishes again whenever a pod is synced.
    fn republish_now(&self, pod: &Pod) {
        let now = self.ports.host.uptime.uptime();
        self.memory
            .of_pod(pod.uid())
            .iter()
            .for_each(|name| self.memory.republish_at_once(name, pod.uid(), now));
    }

    /// The driver may ask for other things now than when its volumes were published.
    fn wake_driver(&self, driver: &str) {
        self.time_republications(driver);
        self.memory.of_driver(driver).into_iter().for_each(|name| self.queue.add(name));
    }

    fn wake_tenant(&self, uid: &str) {
        if uid.is_empty() {
            self.memory.names().into_iter().for_each(|name| self.queue.add(name));
        } else {
            self.memory.of_pod(uid).into_iter().for_each(|name| self.queue.add(name));
        }
    }
}
