//! Processes that come and go, and a stand-in for provisioner and kubelet.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bowline_api::{Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, keys, name, volume};
use bowline_machinery::effect::Part;
use bowline_machinery::{Journal, Object, Ports, client, role};
use bowline_roles::controllers::{persistentvolume, pvcprotection, pvprotection};
use bowline_roles::scheduler;
use bowline_sim::stage::{self, Cut, Line, Stage};
use http::{Method, Request};
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub const DRIVER: &str = "local.example.com";
/// The class that waits for its first consumer.
pub const LATE: &str = "late";

pub struct World {
    stage: Stage,
    provisioner: CancellationToken,
    refused: Arc<Mutex<String>>,
}

impl Deref for World {
    type Target = Stage;
    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl World {
    pub async fn new() -> Self {
        let stage = Stage::new(7).await;
        let world = Self { stage, provisioner: CancellationToken::new(), refused: Arc::default() };
        world.start_provisioner();
        world
    }

    /// The provisioner gives claims for this node back.
    pub fn refuse_node(&self, node: &str) {
        node.clone_into(&mut self.refused.lock().unwrap());
    }

    pub fn stop_provisioner(&self) {
        self.provisioner.cancel();
    }

    /// Creates an object as soon as its predecessor of that name is gone.
    pub async fn until_created<K: Object>(&self, object: &K) -> K {
        self.until("the old one is gone", async || self.get(object).await.is_none()).await;
        self.create(object).await
    }

    /// Takes an object's guards away, as a person in a hurry does.
    pub async fn remove_finalizers<K: Object>(&self, object: &K) {
        self.delete(object).await;
        self.patch(Part::Main, object, json!({"metadata": {"finalizers": null}})).await;
    }

    /// A node that takes pods.
    pub async fn add_node(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "labels": {keys::HOSTNAME_LABEL: name}}});
        let node = self.create::<Node>(&serde_json::from_value(node).unwrap()).await;
        self.patch(Part::Main, &node, json!({"spec": {"taints": null}})).await;
    }

    /// Starts the four roles as one process on a connection of its own.
    pub fn start(&self, cut: Option<Cut>) -> Process {
        self.start_on(self.line().cut(cut), |_| false)
    }

    /// Starts them with pods as they are now: no news of pods comes, and the answer to the first read of one is lost.
    pub fn start_deaf_to_pods(&self) -> Process {
        let reads = AtomicUsize::new(0);
        self.start_on(self.line(), move |request| {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let one = path.starts_with("/api/v1/namespaces/default/pods/");
            let read = request.method() == Method::GET && one;
            let news = path == "/api/v1/pods" && query.contains("watch=true");
            news || (read && reads.fetch_add(1, Ordering::SeqCst) == 0)
        })
    }

    fn start_on(
        &self,
        line: Line,
        loses: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static,
    ) -> Process {
        let pod_lists = Arc::<AtomicUsize>::default();
        let counted = pod_lists.clone();
        let process = self.process(line.losing(move |request| {
            if request.uri().path().ends_with("/namespaces/default/pods") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            loses(request)
        }));
        let ports = process.ports.clone();
        let process = process
            .with(role::run::<persistentvolume::Binder>(ports.clone(), persistentvolume::Flags::default()))
            .with(role::run::<pvcprotection::Protection>(ports.clone(), ()))
            .with(role::run::<pvprotection::Protection>(ports.clone(), ()))
            .with(role::run::<scheduler::Scheduler>(ports, ()));
        Process { process, pod_lists }
    }

    /// Makes what claims ask for and deletes what they leave behind; never crashes.
    fn start_provisioner(&self) {
        let client = client::in_process(self.server.clone());
        let ports = Ports::new(client, self.host.clone(), Journal::default(), self.provisioner.clone());
        let (send, mut todo) = tokio::sync::mpsc::unbounded_channel();
        let claims = ports.informers.of::<PersistentVolumeClaim>();
        let volumes = ports.informers.of::<PersistentVolume>();
        let asked = send.clone();
        claims.on_change(move |change| {
            // As every provisioner, it makes nothing for a claim that waits for a node and has none.
            let placed = |c: &PersistentVolumeClaim| {
                volume::claim_class(c) != Some(LATE) || c.annotation(keys::SELECTED_NODE).is_some()
            };
            let asks = |c: &PersistentVolumeClaim| {
                c.annotation(keys::STORAGE_PROVISIONER) == Some(DRIVER)
                    && volume::claim_volume(c).is_empty()
                    && placed(c)
            };
            if let Some(claim) = change.new.as_ref().filter(|claim| asks(claim)) {
                let _ = asked.send(Todo::Make(claim.clone()));
            }
        });
        volumes.on_change(move |change| {
            let over = |v: &PersistentVolume| {
                volume::volume_phase(v) == volume::RELEASED && volume::reclaim_policy(v) == volume::DELETE
            };
            if let Some(volume) = change.new.as_ref().filter(|volume| over(volume) && !volume.deleting()) {
                let _ = send.send(Todo::Drop(volume.clone()));
            }
        });
        let effects = ports.effects("external-provisioner");
        let (refused, stop) = (self.refused.clone(), self.provisioner.clone());
        tokio::spawn(async move {
            while let Some(todo) = todo.recv().await {
                if stop.is_cancelled() {
                    return;
                }
                let refused = refused.lock().unwrap().clone();
                let _ = match todo {
                    Todo::Make(claim) if claim.annotation(keys::SELECTED_NODE) == Some(&refused) => {
                        let back = json!({"metadata": {"annotations": {keys::SELECTED_NODE: null}}});
                        effects.patch(Part::Main, &*claim, back).await.map(drop)
                    }
                    Todo::Make(claim) => effects.create(&made_for(&claim)).await.map(drop),
                    Todo::Drop(volume) => effects.delete(&*volume, None).await,
                };
            }
        });
    }
}

enum Todo {
    Make(Arc<PersistentVolumeClaim>),
    Drop(Arc<PersistentVolume>),
}

fn made_for(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let name = name::provisioned_volume(claim.uid());
    let mut spec = json!({
        "accessModes": volume::claim_access_modes(claim),
        "capacity": {"storage": "1Gi"},
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid()},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": volume::claim_class(claim),
    });
    if let Some(node) = claim.annotation(keys::SELECTED_NODE) {
        let here = json!({"key": keys::HOSTNAME_LABEL, "operator": "In", "values": [node]});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
    }
    let metadata = json!({"name": name, "annotations": {keys::PROVISIONED_BY: DRIVER}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The four roles in one process.
pub struct Process {
    process: stage::Process,
    pod_lists: Arc<AtomicUsize>,
}

impl Deref for Process {
    type Target = stage::Process;
    fn deref(&self) -> &stage::Process {
        &self.process
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut stage::Process {
        &mut self.process
    }
}

impl Process {
    /// Lists of the pods of a namespace so far; caches list all namespaces.
    pub fn pod_lists(&self) -> usize {
        self.pod_lists.load(Ordering::SeqCst)
    }

    /// Effects so far: `component action object`.
    pub fn journal(&mut self) -> Vec<String> {
        let line = |entry: bowline_machinery::journal::Entry| {
            format!("{} {} {}", entry.component, entry.action, entry.object)
        };
        self.process.journal().into_iter().map(line).collect()
    }

    pub async fn crash(self) {
        self.process.crash().await;
    }

    pub async fn end(self) {
        self.process.end().await;
    }
}

/// Pods by name, for reading conditions.
pub async fn pod(world: &World, name: &str) -> Option<Pod> {
    world.user.get_live::<Pod>("default", name).await.unwrap()
}
