//! An API server in memory, processes that come and go, and a stand-in for provisioner and kubelet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_api::{Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, keys, name, volume};
use bowline_apiserver::kinds::register;
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::{Host, fake};
use bowline_machinery::effect::Part;
use bowline_machinery::{Client, Journal, Object, Ports, RunError, client, role};
use bowline_roles::controllers::{persistentvolume, pvcprotection, pvprotection};
use bowline_roles::scheduler;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

pub const DRIVER: &str = "local.example.com";
/// The class that waits for its first consumer.
pub const LATE: &str = "late";

/// Where the connection of a process breaks: at its n-th write, which may have landed.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub at: usize,
    pub landed: bool,
}

pub struct World {
    server: Server,
    host: Host,
    pub client: Client,
    provisioner: CancellationToken,
    refused: Arc<Mutex<String>>,
}

impl World {
    pub async fn new() -> Self {
        let (host, _) = fake::host(7);
        let mut registry = Registry::new();
        register::register(&mut registry);
        register::register_admission(&mut registry);
        let server = Server::new(Store::memory(), registry, host.clock.clone(), host.random.clone());
        server.bootstrap().await.unwrap();
        let client = client::in_process(server.clone());
        let world =
            Self { server, host, client, provisioner: CancellationToken::new(), refused: Arc::default() };
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

    pub async fn create<K: Object>(&self, object: &K) -> K {
        self.api::<K>(object.namespace()).create(&PostParams::default(), object).await.unwrap()
    }

    pub async fn delete<K: Object>(&self, object: &K) {
        let now = DeleteParams::default().grace_period(0);
        self.api::<K>(object.namespace()).delete(object.name(), &now).await.unwrap();
    }

    pub async fn get<K: Object>(&self, of: &K) -> Option<K> {
        self.api::<K>(of.namespace()).get_opt(of.name()).await.unwrap()
    }

    pub async fn list<K: Object>(&self) -> Vec<K> {
        let path = K::url_path(&(), None);
        let request = kube::core::Request::new(path).list(&ListParams::default()).unwrap();
        self.client.request::<kube::core::ObjectList<K>>(request).await.unwrap().items
    }

    /// Creates an object as soon as its predecessor of that name is gone.
    pub async fn until_created<K: Object>(&self, object: &K) -> K {
        self.until("the old one is gone", async || self.get(object).await.is_none()).await;
        self.create(object).await
    }

    /// Takes an object's guards away, as a person in a hurry does.
    pub async fn remove_finalizers<K: Object>(&self, object: &K) {
        self.delete(object).await;
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.api::<K>(object.namespace()).patch(object.name(), &PatchParams::default(), &bare).await.unwrap();
    }

    /// A node that takes pods.
    pub async fn add_node(&self, name: &str) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {keys::HOSTNAME_LABEL: name}},
        }))
        .unwrap();
        self.create(&node).await;
        let ready = Patch::Merge(json!({"spec": {"taints": null}}));
        self.api::<Node>("").patch(name, &PatchParams::default(), &ready).await.unwrap();
    }

    fn api<K: Object>(&self, namespace: &str) -> Typed<K> {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Typed { client: self.client.clone(), namespace, kind: std::marker::PhantomData }
    }

    /// Waits, on paused time, until this holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        for _ in 0..20_000 {
            if condition().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("never came true: {what}");
    }

    /// Starts the four roles as one process on a connection of its own.
    pub fn start(&self, cut: Option<Cut>) -> Process {
        self.start_on(Line { cut, ..Line::to(&self.server) })
    }

    /// Starts them with pods as they are now: no news of pods comes, and the answer to the first read of one is lost.
    pub fn start_deaf_to_pods(&self) -> Process {
        self.start_on(Line { deaf: true, ..Line::to(&self.server) })
    }

    fn start_on(&self, line: Line) -> Process {
        let (writes, pod_lists) = (line.writes.clone(), line.pod_lists.clone());
        let stop = CancellationToken::new();
        let journal = Journal::default();
        let entries = journal.listen();
        let ports = Ports::new(client::in_process(line), self.host.clone(), journal, stop.clone());
        let mut roles = JoinSet::<Result<(), RunError>>::new();
        roles.spawn(role::run::<persistentvolume::Binder>(ports.clone(), persistentvolume::Flags::default()));
        roles.spawn(role::run::<pvcprotection::Protection>(ports.clone(), ()));
        roles.spawn(role::run::<pvprotection::Protection>(ports.clone(), ()));
        roles.spawn(role::run::<scheduler::Scheduler>(ports, ()));
        Process { stop, roles, writes, pod_lists, entries }
    }

    /// Makes what claims ask for and deletes what they leave behind; never crashes.
    fn start_provisioner(&self) {
        let ports =
            Ports::new(self.client.clone(), self.host.clone(), Journal::default(), self.provisioner.clone());
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
    stop: CancellationToken,
    roles: JoinSet<Result<(), RunError>>,
    writes: Arc<AtomicUsize>,
    pod_lists: Arc<AtomicUsize>,
    entries: tokio::sync::mpsc::UnboundedReceiver<bowline_machinery::journal::Entry>,
}

impl Process {
    /// Writes so far, events left out.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Lists of the pods of a namespace so far; caches list all namespaces.
    pub fn pod_lists(&self) -> usize {
        self.pod_lists.load(Ordering::SeqCst)
    }

    /// Effects so far: `component action object`.
    pub fn journal(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(entry) = self.entries.try_recv() {
            all.push(format!("{} {} {}", entry.component, entry.action, entry.object));
        }
        all
    }

    /// Ends as in a power cut.
    pub async fn crash(mut self) {
        self.stop.cancel();
        self.roles.abort_all();
        while self.roles.join_next().await.is_some() {}
    }

    /// Ends as asked; whatever a role says is an error.
    pub async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.roles.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

/// A connection that can break.
#[derive(Clone)]
struct Line {
    server: Server,
    cut: Option<Cut>,
    writes: Arc<AtomicUsize>,
    pod_lists: Arc<AtomicUsize>,
    deaf: bool,
    pod_reads: Arc<AtomicUsize>,
}

impl Line {
    fn to(server: &Server) -> Self {
        let (server, writes, pod_lists, pod_reads) =
            (server.clone(), Arc::default(), Arc::default(), Arc::default());
        Self { server, cut: None, writes, pod_lists, deaf: false, pod_reads }
    }

    /// Whether a request stays without an answer.
    fn lost(&self, request: &Request<Body>) -> bool {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let read = request.method() == Method::GET && path.starts_with("/api/v1/namespaces/default/pods/");
        let news = path == "/api/v1/pods" && query.contains("watch=true");
        self.deaf && (news || (read && self.pod_reads.fetch_add(1, Ordering::SeqCst) == 0))
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<bowline_apiserver::Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.lost(&request) {
            return Box::pin(std::future::pending());
        }
        if request.uri().path().ends_with("/namespaces/default/pods") {
            self.pod_lists.fetch_add(1, Ordering::SeqCst);
        }
        let counted = request.method() != Method::GET && !request.uri().path().contains("/events");
        let write = if counted { self.writes.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let cut = self.cut.filter(|cut| counted && write >= cut.at);
        let server = self.server.clone();
        Box::pin(async move {
            match cut {
                None => Ok(server.handle(request).await),
                Some(cut) => {
                    if cut.landed && write == cut.at {
                        server.handle(request).await;
                    }
                    std::future::pending().await
                }
            }
        })
    }
}

/// `kube::Api` cannot be made without knowing the scope; this one asks the object.
struct Typed<K> {
    client: Client,
    namespace: Option<String>,
    kind: std::marker::PhantomData<K>,
}

impl<K: Object> Typed<K> {
    fn path(&self) -> kube::core::Request {
        kube::core::Request::new(K::url_path(&(), self.namespace.as_deref()))
    }
    async fn create(&self, parameters: &PostParams, object: &K) -> kube::Result<K> {
        let body = serde_json::to_vec(object).unwrap();
        self.client.request(self.path().create(parameters, body).unwrap()).await
    }
    async fn delete(&self, name: &str, parameters: &DeleteParams) -> kube::Result<()> {
        let request = self.path().delete(name, parameters).unwrap();
        self.client.request_status::<K>(request).await.map(drop)
    }
    async fn patch(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<serde_json::Value>,
    ) -> kube::Result<K> {
        self.client.request(self.path().patch(name, parameters, patch).unwrap()).await
    }
    async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        let request = self.path().get(name, &Default::default()).unwrap();
        match self.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Pods by name, for reading conditions.
pub async fn pod(world: &World, name: &str) -> Option<Pod> {
    Api::<Pod>::namespaced(world.client.clone(), "default").get_opt(name).await.unwrap()
}
