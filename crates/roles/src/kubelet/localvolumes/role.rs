//! The role: which change concerns which volume.

use std::path::PathBuf;
use std::sync::Mutex;

use async_trait::async_trait;
use bowline_api::{ConfigMap, Meta, Node, Pod, Secret, pod};
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Context, EffectError, Effects, Ports, Queue, Recorder, Role, RunError, Step};
use bowline_machinery::{Watched, Watches};
use tokio::sync::oneshot;

use super::decide::decide;
use super::memory::Memory;
use super::model::{Action, Observed, Why};
use super::observe::key;
use super::plan;
use super::reconstruct::reconstruct;
use super::view::Local;
use crate::indexes;
use crate::kubelet::{Alarms, PodRecords, Tenants, show};

/// What these plugins share with the other parts of the kubelet.
pub struct Settings {
    pub node_name: String,
    pub kubelet_dir: PathBuf,
    pub tenants: Tenants,
    pub records: PodRecords,
    /// Gets the view, once the volumes of an earlier process are known.
    pub view: oneshot::Sender<Local>,
}

/// The kubelet's own volume plugins.
pub struct Manager {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) node_name: String,
    pub(super) kubelet_dir: PathBuf,
    pub(super) pods: Cache<Pod>,
    pub(super) nodes: Cache<Node>,
    pub(super) maps: Watched<ConfigMap>,
    pub(super) secrets: Watched<Secret>,
    pub(super) memory: Memory,
    pub(super) tenants: Tenants,
    pub(super) records: PodRecords,
    pub(super) alarms: Alarms,
    queue: Queue<String>,
    view: Mutex<Option<oneshot::Sender<Local>>>,
}

#[async_trait]
impl Role for Manager {
    const NAME: &'static str = "localvolumes";
    const COMPONENT: &'static str = "kubelet";
    /// Volumes worked on at the same time.
    const WORKERS: usize = 64;
    type Settings = Settings;
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, recorder, queue } = context;
        let Settings { node_name, kubelet_dir, tenants, records, view } = settings;
        let pods = ports.informers.of::<Pod>();
        indexes::pods_by_uid(&pods);
        let memory = Memory::default();
        reconstruct(&ports.host, &kubelet_dir, &records.uids(), &memory).await;
        let random = &ports.host.random;
        Ok(Self {
            nodes: ports.informers.of(),
            maps: Watched::new(ports.client.clone(), random.clone(), ports.stop.clone()),
            secrets: Watched::new(ports.client.clone(), random.clone(), ports.stop.clone()),
            alarms: Alarms::new(queue.clone()),
            view: Mutex::new(Some(view)),
            ports,
            effects,
            recorder,
            node_name,
            kubelet_dir,
            pods,
            memory,
            tenants,
            records,
            queue,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches
            .on(&self.pods, |role, change, _| change.sides().for_each(|pod| role.wake(pod)))
            .read(&self.nodes);
        let role = watches.role();
        self.tenants.on_change(move |uid| {
            let Some(role) = role.upgrade() else { return };
            match uid {
                "" => role.memory.uids().iter().for_each(|uid| role.wake_known(uid)),
                uid => role.wake_known(uid),
            }
        });
        let to = self.queue.clone();
        self.maps.on_change(move |volume| to.add(volume.to_owned()));
        let to = self.queue.clone();
        self.secrets.on_change(move |volume| to.add(volume.to_owned()));
    }
    async fn begin(&self) -> Result<(), RunError> {
        show(&self.view, Local { memory: self.memory.clone(), kubelet_dir: self.kubelet_dir.clone() });
        self.memory.uids().iter().for_each(|uid| self.wake_known(uid));
        Ok(())
    }
    async fn prepare(&self, key: &String) -> Result<(), EffectError> {
        self.remember(key);
        Ok(())
    }
    async fn observe(&self, key: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.seen(key))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, key: &String, seen: &Observed, why: &Why) {
        if let Some(at) = why.until() {
            self.alarms.set(key, at, seen.now);
        }
    }
    async fn failed(&self, key: &String, error: &EffectError) {
        self.tell_failed(key, error);
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
}

impl Manager {
    fn wake(&self, pod: &Pod) {
        if pod::node_name(pod) != self.node_name {
            return;
        }
        plan::of_pod(pod).for_each(|(name, _)| self.queue.add(key(pod.uid(), name)));
        self.wake_known(pod.uid());
    }

    fn wake_known(&self, uid: &str) {
        self.memory.of_pod(uid).iter().for_each(|name| self.queue.add(key(uid, name)));
    }
}
