//! The role: pods of this node, their volumes, and the containers that an earlier process left.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bowline_api::{ConfigMap, Meta, Node, Pod, Secret, pod};
use bowline_host::containers::Found;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Context, EffectError, Effects, Ports, Queue, Recorder, Role, RunError, Step};
use bowline_machinery::{Told, Watched, Watches};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::decide::decide;
use super::inspect::Inspector;
use super::leftovers::Leftover;
use super::model::{Action, Config, Observed, State, Why};
use super::runtime::{self, Runtime};
use super::spec;
use crate::indexes::{self, PODS_BY_UID};
use crate::kubelet::localvolumes::Local;
use crate::kubelet::volumemanager::Mounts;
use crate::kubelet::{Alarms, PodRecords, Tenants, show};

/// Removals that are tried again at the same time.
const CLEANERS: usize = 4;

/// What the pod workers share with the other parts of the kubelet.
pub struct Settings {
    pub config: Config,
    pub mounts: Mounts,
    pub local: Local,
    pub tenants: Tenants,
    pub records: PodRecords,
    /// Gets the view, once the containers of an earlier process are known.
    pub view: oneshot::Sender<Inspector>,
}

/// Runs the containers of pods.
#[derive(Clone)]
pub struct Pods {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) config: Arc<Config>,
    pub(super) pods: Cache<Pod>,
    pub(super) nodes: Cache<Node>,
    pub(super) mounts: Mounts,
    pub(super) local: Local,
    pub(super) tenants: Tenants,
    pub(super) records: PodRecords,
    pub(super) runtime: Runtime,
    pub(super) queue: Queue<String>,
    /// What could not be removed of pods that have ended.
    pub(super) leftovers: Queue<Leftover>,
    pub(super) alarms: Alarms,
    /// What variables of containers come from; followed by pod UID.
    pub(super) maps: Watched<ConfigMap>,
    pub(super) secrets: Watched<Secret>,
    /// Back-offs that pods were told of.
    pub(super) told: Arc<Told<String>>,
    view: Arc<Mutex<Option<oneshot::Sender<Inspector>>>>,
    cleaning: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[async_trait]
impl Role for Pods {
    const NAME: &'static str = "pods";
    const COMPONENT: &'static str = "kubelet";
    /// Pods worked on at the same time.
    const WORKERS: usize = 64;
    type Settings = Settings;
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, recorder, queue } = context;
        let Settings { config, mounts, local, tenants, records, view } = settings;
        let pods = ports.informers.of::<Pod>();
        indexes::pods_by_uid(&pods);
        let random = &ports.host.random;
        Ok(Self {
            nodes: ports.informers.of(),
            config: Arc::new(config),
            runtime: Runtime::default(),
            alarms: Alarms::new(queue.clone()),
            maps: Watched::new(ports.client.clone(), random.clone(), ports.stop.clone()),
            secrets: Watched::new(ports.client.clone(), random.clone(), ports.stop.clone()),
            leftovers: Queue::new(Backoff::VOLUME),
            told: Arc::default(),
            view: Arc::new(Mutex::new(Some(view))),
            cleaning: Arc::default(),
            ports,
            effects,
            recorder,
            pods,
            mounts,
            local,
            tenants,
            records,
            queue,
        })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.pods, |role, change, queue| {
            let here = change.sides().filter(|pod| pod::node_name(pod) == role.config.node_name);
            here.for_each(|pod| queue.add(pod.uid().to_owned()));
        });
        watches.read(&self.nodes);
        let role = watches.role();
        self.mounts.on_change(move |uid| role.upgrade().iter().for_each(|role| role.volumes_changed(uid)));
        let role = watches.role();
        self.local.on_change(move |uid| role.upgrade().iter().for_each(|role| role.volumes_changed(uid)));
        let queue = self.queue.clone();
        self.maps.on_change(move |uid| queue.add(uid.to_owned()));
        let queue = self.queue.clone();
        self.secrets.on_change(move |uid| queue.add(uid.to_owned()));
        let role = watches.role();
        self.tenants.on_change(move |uid| {
            let role = role.upgrade().filter(|_| uid.is_empty());
            role.iter().for_each(|role| role.runtime.uids().into_iter().for_each(|uid| role.queue.add(uid)));
        });
    }
    async fn begin(&self) -> Result<(), RunError> {
        adopt(self).await?;
        self.runtime.uids().into_iter().for_each(|uid| self.queue.add(uid));
        show(&self.view, Inspector::new(Arc::new(self.clone())));
        let (pods, stop) = (self.clone(), self.ports.stop.clone());
        let cleaning = tokio::spawn(async move {
            let cleaner = pods.clone();
            let clean = move |leftover: Leftover| {
                let pods = cleaner.clone();
                async move { pods.clean_leftover(&leftover).await }
            };
            pods.leftovers.run(CLEANERS, stop, clean).await;
        });
        *self.cleaning.lock().unwrap_or_else(PoisonError::into_inner) = Some(cleaning);
        Ok(())
    }
    async fn prepare(&self, uid: &String) -> Result<(), EffectError> {
        self.remember(uid);
        Ok(())
    }
    async fn observe(&self, uid: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.seen(uid))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn waiting(&self, uid: &String, seen: &Observed, why: &Why) {
        if let (Why::BackOff { container, at }, Some(pod)) = (why.reason(), &seen.pod)
            && self.told.news(uid, &format!("{container} {at:?}"))
        {
            let text =
                format!("Back-off restarting failed container {container} in pod {}", spec::pod_text(pod));
            self.recorder.warning(pod.as_ref(), "BackOff", text);
        }
        let patience = self.tell_when_overdue(seen, why);
        if let Some(at) = [why.until(), patience].into_iter().flatten().min() {
            self.alarms.set(uid, at, seen.now);
        }
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
    /// A removal that has begun is finished.
    async fn finish(&self) {
        let cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(cleaning) = cleaning {
            let _ = cleaning.await;
        }
    }
}

impl Pods {
    fn volumes_changed(&self, uid: &str) {
        if uid.is_empty() {
            return;
        }
        // A volume that was on its way when its pod was taken away has made the pod's directory again.
        if self.pods.indexed(PODS_BY_UID, uid).is_empty() {
            self.runtime.update(uid, |_| ());
        }
        self.queue.add(uid.to_owned());
    }
}

/// Whatever runs goes on running, and its volumes stay (NODE-3). Only then may anything be unmounted.
async fn adopt(pods: &Pods) -> Result<(), RunError> {
    let host = &pods.ports.host;
    let found = host.containers.list().await.map_err(|error| RunError::Effect {
        what: "list the containers of an earlier process",
        source: EffectError::unknown(error.to_string()),
    })?;
    for Found { id, state, evicted, earlier_boot } in found {
        let Some((uid, container, number)) = runtime::parts(&id) else { continue };
        let runs = matches!(state, State::Running { .. });
        let last_lines = match &state {
            State::Exited { exit, .. } => pods.last_lines(uid, container, number, exit).await,
            State::Running { .. } => None,
        };
        pods.runtime.started(uid, container, number, state, pods.now());
        if let Some(text) = last_lines {
            pods.runtime.wrote_last(uid, container, number, text);
        }
        if evicted {
            pods.runtime.evicted(uid, container, number);
        }
        if earlier_boot {
            pods.runtime.of_earlier_boot(uid, container, number);
        }
        if runs {
            pods.tenants.enter(uid);
            pods.wait(uid, container, number);
        }
    }
    // Only what is recorded: directories of other pods are not ours to remove.
    for uid in pods.records.uids() {
        pods.runtime.update(&uid, |_| ());
    }
    pods.tenants.set_counted();
    Ok(())
}
