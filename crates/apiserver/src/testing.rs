//! Small kinds, a fixed clock and a seeded generator for tests of what knows no kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_host::{Clock, Random};
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::{BodyExt, BodyStream, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::auth::{Holder, Identity, MASTERS, User};
use crate::field::Invalid;
use crate::http::body::Body;
use crate::kinds::{Column, DeleteReply, Deletion, Names, Rules, column};
use crate::registry::{Registry, Subresource};
use crate::server::{Peer, Server};
use crate::store::{AppendError, Backend, Loaded, Options, Record, Space, Store};

const COLUMNS: &[Column] = &[column::name("Name", "")];

macro_rules! kind {
    ($rules:ident, $object:ty, $plural:literal, $singular:literal, $namespaced:literal, { $($rest:tt)* }) => {
        pub struct $rules;
        impl Rules for $rules {
            type Object = $object;
            const NAMES: Names =
                Names { plural: $plural, singular: $singular, short: &[], categories: &[] };
            const NAMESPACED: bool = $namespaced;
            fn columns() -> &'static [Column] {
                COLUMNS
            }
            fn cells(object: &Self::Object, _now: Timestamp) -> Vec<Value> {
                vec![object.metadata.name.clone().into()]
            }
            $($rest)*
        }
    };
}

kind!(ConfigMaps, ConfigMap, "configmaps", "configmap", true, {
    fn validate(_: &ConfigMap) -> Vec<Invalid> {
        Vec::new()
    }
});

kind!(Namespaces, Namespace, "namespaces", "namespace", false, {
    fn validate(_: &Namespace) -> Vec<Invalid> {
        Vec::new()
    }
});

kind!(StorageClasses, StorageClass, "storageclasses", "storageclass", false, {
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    fn validate(object: &StorageClass) -> Vec<Invalid> {
        let missing = object.provisioner.is_empty();
        missing.then(|| Invalid::required("provisioner", "")).into_iter().collect()
    }
});

kind!(Drivers, CSIDriver, "csidrivers", "csidriver", false, {
    const GENERATION: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CREATE_ON_UPDATE: bool = true;
    fn validate(_: &CSIDriver) -> Vec<Invalid> {
        Vec::new()
    }
});

kind!(Claims, PersistentVolumeClaim, "persistentvolumeclaims", "persistentvolumeclaim", true, {
    const STATUS: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    fn default_fields(object: &mut PersistentVolumeClaim) {
        object.spec.get_or_insert_default().volume_mode.get_or_insert_with(|| "Filesystem".into());
    }
    fn prepare_create(object: &mut PersistentVolumeClaim, _now: Timestamp) {
        object.status = Some(Default::default());
        object.status.get_or_insert_default().phase = Some("Pending".into());
    }
    fn prepare_update(new: &mut PersistentVolumeClaim, old: &PersistentVolumeClaim) {
        new.status = old.status.clone();
    }
    fn prepare_status(new: &mut PersistentVolumeClaim, old: &PersistentVolumeClaim, _now: Timestamp) {
        new.spec = old.spec.clone();
    }
    fn validate(object: &PersistentVolumeClaim) -> Vec<Invalid> {
        let modes = object.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
        let missing = modes.is_none_or(Vec::is_empty);
        let error = || Invalid::required("spec.accessModes", "at least 1 access mode is required");
        missing.then(error).into_iter().collect()
    }
    fn validate_update(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> Vec<Invalid> {
        let changed = new.spec.as_ref().map(|s| &s.volume_mode) != old.spec.as_ref().map(|s| &s.volume_mode);
        changed.then(|| Invalid::forbidden("spec", "spec is immutable")).into_iter().collect()
    }
});

kind!(Pods, Pod, "pods", "pod", true, {
    const SUBRESOURCES: &'static [Subresource] = crate::kinds::pod::PodRules::SUBRESOURCES;
    const STATUS: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    const FIELD_LABELS: &'static [&'static str] = &["spec.nodeName"];
    fn validate(_: &Pod) -> Vec<Invalid> {
        Vec::new()
    }
    fn deletion(object: &Pod, requested: Option<i64>) -> Deletion {
        let assigned = object.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        if assigned { Deletion::Graceful(requested.unwrap_or(30)) } else { Deletion::Now }
    }
    fn field_labels(object: &Pod) -> Vec<(&'static str, String)> {
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.clone());
        vec![("spec.nodeName", node.unwrap_or_default())]
    }
});

/// Stands still.
pub struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600).unwrap()
    }
}

/// A counter through a mixer: different every time, the same in every run.
pub struct TestRandom(AtomicU64);

impl Random for TestRandom {
    fn next_u64(&self) -> u64 {
        let n = self.0.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n ^ (n >> 27)
    }
}

pub fn clock() -> Arc<TestClock> {
    Arc::new(TestClock)
}

pub fn random() -> Arc<TestRandom> {
    Arc::new(TestRandom(AtomicU64::new(7)))
}

pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add::<ConfigMaps>();
    registry.add::<Namespaces>();
    registry.add::<StorageClasses>();
    registry.add::<Drivers>();
    registry.add::<Claims>();
    registry.add::<Pods>();
    registry
}

/// A server with the namespaces every cluster has.
pub async fn server() -> Server {
    server_on(Store::memory()).await
}

pub async fn server_on(store: Store) -> Server {
    server_with(store, registry()).await
}

/// A server with the kinds and plugins of the real one.
pub async fn real_server(store: Store) -> Server {
    let mut registry = Registry::new();
    crate::kinds::register::register(&mut registry);
    crate::kinds::register::register_admission(&mut registry);
    server_with(store, registry).await
}

async fn server_with(store: Store, registry: Registry) -> Server {
    let server = Server::new(store, registry, clock(), random());
    server.bootstrap().await.unwrap();
    server
}

/// The same on a store of its own.
pub async fn full_server() -> Server {
    real_server(Store::memory()).await
}

/// Nothing is kept, but each batch of writes asks first.
struct Asking<F>(F);

impl<F: Fn() -> Result<(), String> + Send> Backend for Asking<F> {
    fn append(&mut self, _: &[Record], _: u64) -> Result<(), AppendError> {
        Ok(())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        Err("nothing is kept".into())
    }

    fn space(&self) -> Result<Option<Space>, String> {
        (self.0)().map(|()| None)
    }
}

/// A store whose writes may be refused, or made to wait, before they happen.
pub fn store_that(asks: impl Fn() -> Result<(), String> + Send + 'static) -> Store {
    Store::on_thread(Box::new(Asking(asks)), Loaded::default(), Options::default()).unwrap()
}

/// What came back.
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
    pub bytes: Bytes,
}

impl Answer {
    /// The object of a successful request.
    pub fn ok(self) -> Value {
        assert!(self.code < 300, "{} {}", self.code, self.body);
        self.body
    }

    pub fn version(&self) -> u64 {
        version(&self.body)
    }
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub async fn send(
    server: &Server,
    method: Method,
    path: &str,
    accept: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("accept", accept);
    let mut bytes = Vec::new();
    if let Some((content_type, content)) = body {
        request = request.header("content-type", content_type);
        bytes = content;
    }
    let response = server.handle(request.body(Full::new(Bytes::from(bytes))).unwrap()).await;
    let (head, body) = response.into_parts();
    let warnings = head.headers.get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    let body = body.collect().await.unwrap().to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    Answer {
        code: head.status.as_u16(),
        warnings,
        body: serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        bytes: body.clone(),
    }
}

/// Somebody at a connection who may do everything.
pub fn masters_at(address: Option<SocketAddr>) -> Peer {
    let user = User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() };
    let until = TestClock.now() + jiff::SignedDuration::from_hours(24);
    let identity = Identity::Certificate(Arc::new(Holder { user: Arc::new(user), until }));
    Peer { identity, address, closing: CancellationToken::new() }
}

/// A request as it comes over a connection, and the whole answer.
pub async fn from_outside(
    server: &Server,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> (http::response::Parts, Bytes) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(masters_at(None));
    let (head, body) = server.handle(request).await.into_parts();
    (head, body.collect().await.unwrap().to_bytes())
}

const JSON: &str = "application/json";

pub async fn get(server: &Server, path: &str) -> Answer {
    send(server, Method::GET, path, JSON, None).await
}

pub async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    send(server, Method::POST, path, JSON, Some((JSON, body.to_string().into_bytes()))).await
}

pub async fn put(server: &Server, path: &str, body: &Value) -> Answer {
    send(server, Method::PUT, path, JSON, Some((JSON, body.to_string().into_bytes()))).await
}

/// `kind` is `json`, `merge` or `strategic-merge`.
pub async fn patch(server: &Server, path: &str, kind: &str, body: &Value) -> Answer {
    let media = format!("application/{kind}-patch+json");
    send(server, Method::PATCH, path, JSON, Some((&media, body.to_string().into_bytes()))).await
}

pub async fn delete(server: &Server, path: &str, options: Option<Value>) -> Answer {
    let body = options.map(|options| (JSON, options.to_string().into_bytes()));
    send(server, Method::DELETE, path, JSON, body).await
}

/// An open watch.
pub struct Watching {
    stream: BodyStream<Body>,
    buffer: Vec<u8>,
}

pub async fn watch(server: &Server, path: &str, accept: &str) -> Watching {
    let request = Request::builder().uri(path).header("accept", accept);
    let response = server.handle(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert_eq!(response.status(), 200);
    Watching { stream: BodyStream::new(response.into_body()), buffer: Vec::new() }
}

impl Watching {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.stream.next().await?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// Type and name of the next event.
    pub async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        (event["type"].as_str().unwrap().to_owned(), name.to_owned())
    }
}

pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

pub fn configmap(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "scratch"}]},
    })
}
