//! A server in memory, a garbage collector on a line that can break or be slow, and a user.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_apiserver::kinds::register;
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::{Host, fake};
use bowline_machinery::journal::Entry;
use bowline_machinery::{Journal, Ports, RunError, client, role};
use bowline_roles::controllers::garbagecollector;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Where the connection breaks: at the n-th write, which may have landed.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub at: usize,
    pub landed: bool,
}

pub struct World {
    pub server: Server,
    host: Host,
}

impl World {
    pub async fn new(seed: u64) -> Self {
        let (host, _) = fake::host(seed);
        let mut registry = Registry::new();
        register::register(&mut registry);
        register::register_admission(&mut registry);
        let server = Server::new(Store::memory(), registry, host.clock.clone(), host.random.clone());
        server.bootstrap().await.unwrap();
        Self { server, host }
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        send(&self.server, method, path, body).await
    }

    pub async fn get(&self, path: &str) -> Option<Value> {
        let (code, object) = self.send(Method::GET, path, Value::Null).await;
        (code == 200).then_some(object)
    }

    /// Creates an object and says what a reference to it looks like.
    pub async fn create(&self, collection: &str, name: &str, owners: &[Value]) -> Value {
        let object = json!({
            "metadata": {"name": name, "ownerReferences": owners},
            "provisioner": collection.contains("storageclasses").then_some("example.com/none"),
        });
        let (code, created) = self.send(Method::POST, collection, object).await;
        assert_eq!(code, 201, "{created}");
        json!({
            "apiVersion": created["apiVersion"], "kind": created["kind"], "name": name,
            "uid": created["metadata"]["uid"], "blockOwnerDeletion": true,
        })
    }

    pub async fn delete(&self, path: &str, policy: &str) {
        let (code, answer) =
            self.send(Method::DELETE, &format!("{path}?propagationPolicy={policy}"), Value::Null).await;
        assert_eq!(code, 200, "{answer}");
    }

    /// Names in a collection and the names of their owners. What the server itself put there is left out.
    pub async fn owners(&self, collection: &str) -> BTreeMap<String, Vec<String>> {
        let list = self.get(collection).await.unwrap();
        let named = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let mut owners: Vec<String> =
                owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect();
            owners.sort();
            (name, owners)
        };
        let all = list["items"].as_array().unwrap().iter().map(named);
        all.filter(|(name, _)| name != "kube-root-ca.crt").collect()
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

    pub async fn until_gone(&self, path: &str) {
        self.until(&format!("{path} is gone"), async || self.get(path).await.is_none()).await;
    }

    /// Time in which a garbage collector that wants something does it.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(120)).await;
    }

    pub fn start(&self) -> Process {
        self.start_with(None, &[])
    }

    /// `slow` names plurals whose watches are late, and by how much.
    pub fn start_with(&self, cut: Option<Cut>, slow: &[(&'static str, Duration)]) -> Process {
        let line = Line {
            server: self.server.clone(),
            cut,
            slow: slow.to_vec(),
            writes: Arc::default(),
            wrong: Arc::default(),
        };
        let (writes, wrong) = (line.writes.clone(), line.wrong.clone());
        let (stop, journal) = (CancellationToken::new(), Journal::default());
        let entries = journal.listen();
        let ports = Ports::new(client::in_process(line), self.host.clone(), journal, stop.clone());
        let role = tokio::spawn(role::run::<garbagecollector::Collector>(ports, ()));
        Process { stop, role, writes, wrong, entries }
    }
}

async fn send(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).body(kube::client::Body::from(body)).unwrap();
    let response = server.handle(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// A garbage collector.
pub struct Process {
    stop: CancellationToken,
    role: JoinHandle<Result<(), RunError>>,
    writes: Arc<AtomicUsize>,
    wrong: Arc<Mutex<Vec<String>>>,
    entries: UnboundedReceiver<Entry>,
}

impl Process {
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Effects that succeeded so far: `action object`.
    pub fn journal(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(entry) = self.entries.try_recv() {
            if entry.error.is_empty() {
                all.push(format!("{} {}", entry.action, entry.object));
            }
        }
        all
    }

    /// GC-1, as seen by the server at the moment of each deletion.
    pub fn assert_safe(&self) {
        assert_eq!(*self.wrong.lock().unwrap(), Vec::<String>::new());
    }

    /// Ends as in a power cut.
    pub async fn crash(self) {
        self.assert_safe();
        self.stop.cancel();
        self.role.abort();
        let _ = self.role.await;
    }

    pub async fn end(self) {
        self.assert_safe();
        self.stop.cancel();
        self.role.await.unwrap().unwrap();
    }
}

#[derive(Clone)]
struct Line {
    server: Server,
    cut: Option<Cut>,
    slow: Vec<(&'static str, Duration)>,
    writes: Arc<AtomicUsize>,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Line {
    /// Notes a deletion of something that has an owner which neither is gone nor waits for this.
    async fn judge(&self, path: &str) {
        let (_, object) = send(&self.server, Method::GET, path, Value::Null).await;
        for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let collection = match owner["kind"].as_str().unwrap() {
                "ConfigMap" => MAPS,
                "Secret" => SECRETS,
                _ => CLASSES,
            };
            let place = format!("{collection}/{}", owner["name"].as_str().unwrap());
            let (code, found) = send(&self.server, Method::GET, &place, Value::Null).await;
            let there = code == 200 && found["metadata"]["uid"] == owner["uid"];
            let finalizers = found["metadata"]["finalizers"].as_array();
            let waits = finalizers.is_some_and(|all| all.iter().any(|name| name == "foregroundDeletion"))
                && found["metadata"]["deletionTimestamp"].is_string();
            if there && !waits {
                self.wrong.lock().unwrap().push(format!("{path} has the owner {place}"));
            }
        }
    }

    fn lag(&self, request: &Request<kube::client::Body>) -> Option<Duration> {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let slow = self.slow.iter().find(|(plural, _)| request.uri().path().ends_with(plural));
        slow.filter(|_| watch).map(|(_, lag)| *lag)
    }
}

impl Service<Request<kube::client::Body>> for Line {
    type Response = Response<UnsyncBoxBody<bytes::Bytes, std::convert::Infallible>>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let counted = request.method() != Method::GET && !request.uri().path().contains("/events");
        let write = if counted { self.writes.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let cut = self.cut.filter(|cut| counted && write >= cut.at);
        let (line, lag) = (self.clone(), self.lag(&request));
        Box::pin(async move {
            if request.method() == Method::DELETE {
                line.judge(request.uri().path()).await;
            }
            if let Some(cut) = cut {
                if cut.landed && write == cut.at {
                    line.server.handle(request).await;
                }
                return std::future::pending().await;
            }
            let response = line.server.handle(request).await;
            Ok(match lag {
                None => response.map(BodyExt::boxed_unsync),
                Some(lag) => response.map(|body| {
                    let frames = BodyStream::new(body).then(move |frame| async move {
                        tokio::time::sleep(lag).await;
                        frame
                    });
                    StreamBody::new(frames).boxed_unsync()
                }),
            })
        })
    }
}
