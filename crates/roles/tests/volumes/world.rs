//! An API server in memory, a driver in memory, and a process with the roles that move volumes.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_api::{CSINode, Event, Meta, Node, keys};
use bowline_apiserver::{Registry, Server, Store, kinds::register};
use bowline_host::{Host, fake};
use bowline_machinery::effect::Part;
use bowline_machinery::incoming::accepted;
use bowline_machinery::journal::Entry;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Effects, Journal, Object, Ports, RunError, Sidecar, client, role};
use bowline_proto::csi::v1::controller_server::ControllerServer;
use bowline_proto::csi::v1::identity_server::IdentityServer;
use bowline_roles::controllers::{attachdetach, persistentvolume, pvcprotection, pvprotection};
use bowline_roles::flags;
use bowline_roles::sidecars::{external_attacher, external_provisioner};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Either, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::driver::{Driver, NAME};

const SOCKET: &str = "/csi/csi.sock";

/// Where the connection of a process breaks: at its n-th write, which may have landed.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub at: usize,
    pub landed: bool,
}

pub struct World {
    server: Server,
    host: Host,
    pub driver: Driver,
    user: Effects,
}

impl World {
    pub async fn new() -> Self {
        let (host, _) = fake::host(7);
        let mut registry = Registry::new();
        register::register(&mut registry);
        register::register_admission(&mut registry);
        let server = Server::new(Store::memory(), registry, host.clock.clone(), host.random.clone());
        server.bootstrap().await.unwrap();
        let driver = Driver::default();
        host.disk.create_dir_all(Path::new("/csi"), 0o755).await.unwrap();
        let listener = host.net.listen(Path::new(SOCKET)).await.unwrap();
        let serving = tonic::transport::Server::builder()
            .add_service(IdentityServer::new(driver.clone()))
            .add_service(ControllerServer::new(driver.clone()));
        tokio::spawn(serving.serve_with_incoming(accepted(listener)));
        let stop = CancellationToken::new();
        let ports = Ports::new(client::in_process(server.clone()), host.clone(), Journal::default(), stop);
        Self { server, host, driver, user: ports.effects("user") }
    }

    pub async fn create<K: Object>(&self, object: &K) -> K {
        self.user.create(object).await.unwrap()
    }

    pub async fn delete<K: Object>(&self, object: &K) {
        self.user.delete(object, Some(0)).await.unwrap();
    }

    pub async fn get<K: Object>(&self, of: &K) -> Option<K> {
        self.user.get_live::<K>(of.namespace(), of.name()).await.unwrap()
    }

    pub async fn list<K: Object>(&self) -> Vec<K> {
        self.user.list_live::<K>("").await.unwrap()
    }

    pub async fn patch<K: Object>(&self, part: Part, object: &K, patch: Value) {
        self.user.patch(part, object, patch).await.unwrap();
    }

    pub async fn reasons(&self) -> Vec<String> {
        self.list::<Event>().await.into_iter().filter_map(|e| e.reason).collect()
    }

    /// A ready node with the driver on it, whose kubelet leaves attaching to the controller.
    pub async fn add_node(&self, name: &str) -> Node {
        let managed = json!({keys::CONTROLLER_MANAGED_ATTACH: "true"});
        let node = json!({"metadata": {"name": name, "annotations": managed}});
        let node: Node = self.create(&serde_json::from_value(node).unwrap()).await;
        self.ready(&node, true).await;
        let driver = json!({"name": NAME, "nodeID": format!("id-of-{name}"), "topologyKeys": null});
        let csi = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
        self.create::<CSINode>(&serde_json::from_value(csi).unwrap()).await;
        node
    }

    pub async fn ready(&self, node: &Node, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        let time = "2026-01-01T00:00:00Z";
        let condition = json!({"type": "Ready", "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time, "reason": "r", "message": "m"});
        self.patch(Part::Status, node, json!({"status": {"conditions": [condition]}})).await;
    }

    /// What the kubelet says it may have mounted.
    pub async fn in_use(&self, node: &Node, volumes: &[&str]) {
        self.patch(Part::Status, node, json!({"status": {"volumesInUse": volumes}})).await;
    }

    /// Waits, on paused time, until this holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let mut pause = Duration::from_millis(1);
        for _ in 0..2_000 {
            if condition().await {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        panic!("never came true: {what}; calls: {:#?}", self.driver.state().calls);
    }

    /// Starts the roles as one process on a connection of its own.
    pub fn start(&self, cut: Option<Cut>) -> Process {
        self.start_on(Line { cut, ..Line::to(&self.server) })
    }

    /// Starts the roles without the right to requests whose path ends like this or goes on below it.
    pub fn start_without(&self, path: &'static str) -> Process {
        self.start_on(Line { forbidden: Some((None, path)), ..Line::to(&self.server) })
    }

    /// Starts the roles without the right to one method of such requests.
    pub fn start_without_method(&self, method: Method, path: &'static str) -> Process {
        self.start_on(Line { forbidden: Some((Some(method), path)), ..Line::to(&self.server) })
    }

    /// The list of a kind as it is now.
    pub async fn listed(&self, path: &'static str) -> Listed {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let body = self.server.handle(request).await.into_body().collect().await.unwrap().to_bytes();
        Listed { path, body }
    }

    /// Starts the roles on an API server whose copy of one kind stays as it was.
    pub fn start_lagging(&self, listed: Listed) -> Process {
        self.start_on(Line { lagging: Some(listed), ..Line::to(&self.server) })
    }

    fn start_on(&self, line: Line) -> Process {
        let writes = line.writes.clone();
        let stop = CancellationToken::new();
        let journal = Journal::default();
        let entries = journal.listen();
        let ports = Ports::new(client::in_process(line), self.host.clone(), journal, stop.clone());
        let mut roles = JoinSet::<Result<(), RunError>>::new();
        roles.spawn(role::run::<persistentvolume::Binder>(ports.clone(), flags(&[]).unwrap()));
        roles.spawn(role::run::<pvcprotection::Protection>(ports.clone(), ()));
        roles.spawn(role::run::<pvprotection::Protection>(ports.clone(), ()));
        roles.spawn(role::run::<attachdetach::Controller>(ports.clone(), flags(&[]).unwrap()));
        let with = ports.clone();
        roles.spawn(async move {
            let Some(sidecar) = connected(&with, "external-provisioner").await? else { return Ok(()) };
            role::run::<external_provisioner::Provisioner>(with, (sidecar, flags(&[]).unwrap())).await
        });
        roles.spawn(async move {
            let Some(sidecar) = connected(&ports, "external-attacher").await? else { return Ok(()) };
            role::run::<external_attacher::Attacher>(ports, (sidecar, flags(&[]).unwrap())).await
        });
        Process { stop, roles, writes, entries }
    }
}

/// The driver, unless the process is stopped before it answers.
async fn connected(ports: &Ports, name: &'static str) -> Result<Option<Sidecar>, RunError> {
    let timeout = Duration::from_secs(15);
    tokio::select! {
        () = ports.stop.cancelled() => Ok(None),
        sidecar = Sidecar::connect(ports, name, Path::new(SOCKET), timeout, Backoff::SIDECAR) => sidecar.map(Some),
    }
}

pub struct Process {
    stop: CancellationToken,
    roles: JoinSet<Result<(), RunError>>,
    writes: Arc<AtomicUsize>,
    entries: UnboundedReceiver<Entry>,
}

impl Process {
    /// How often an effect was tried since the last question.
    pub fn count(&mut self, action: &str, object: &str) -> usize {
        let entries = std::iter::from_fn(|| self.entries.try_recv().ok());
        entries.filter(|entry| entry.action == action && entry.object == object).count()
    }

    /// Writes so far, events left out.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Ends as in a power cut.
    pub async fn crash(mut self) {
        self.roles.abort_all();
        while self.roles.join_next().await.is_some() {}
        self.stop.cancel();
    }

    /// Ends as asked; whatever a role says is an error.
    pub async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.roles.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

/// A list that a lagging API server still answers with.
#[derive(Clone)]
pub struct Listed {
    path: &'static str,
    body: Bytes,
}

/// A connection that can break.
#[derive(Clone)]
struct Line {
    server: Server,
    cut: Option<Cut>,
    forbidden: Option<(Option<Method>, &'static str)>,
    lagging: Option<Listed>,
    writes: Arc<AtomicUsize>,
}

impl Line {
    fn to(server: &Server) -> Self {
        let (server, writes) = (server.clone(), Arc::default());
        Self { server, cut: None, forbidden: None, lagging: None, writes }
    }

    /// The old list, and no news of it; reads of the store itself are as fresh as ever.
    fn lags(&self, request: &Request<Body>) -> Option<BoxFuture<'static, Result<Answer, Infallible>>> {
        let listed = self.lagging.clone().filter(|listed| listed.path == request.uri().path())?;
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            return Some(Box::pin(std::future::pending()));
        }
        let cached = query.contains("resourceVersion=0");
        let answer = Response::builder().header("content-type", "application/json");
        let answer = answer.body(Either::Right(Full::from(listed.body))).unwrap();
        cached.then(|| Box::pin(async move { Ok(answer) }) as _)
    }
}

type Answer = Response<Either<bowline_apiserver::Body, Full<Bytes>>>;

impl Service<Request<Body>> for Line {
    type Response = Answer;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let forbidden = |(method, path): &(Option<Method>, &str)| {
            method.as_ref().is_none_or(|method| method == request.method())
                && request.uri().path().contains(path)
        };
        if self.forbidden.as_ref().is_some_and(forbidden) {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden by the test"});
            let answer = Response::builder().status(403).header("content-type", "application/json");
            let answer = answer.body(Either::Right(Full::from(status.to_string()))).unwrap();
            return Box::pin(async move { Ok(answer) });
        }
        if let Some(answer) = self.lags(&request) {
            return answer;
        }
        let counted = request.method() != Method::GET && !request.uri().path().contains("/events");
        let write = if counted { self.writes.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let cut = self.cut.filter(|cut| counted && write >= cut.at);
        let server = self.server.clone();
        Box::pin(async move {
            match cut {
                None => Ok(server.handle(request).await.map(Either::Left)),
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
