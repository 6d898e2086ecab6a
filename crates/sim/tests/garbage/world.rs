//! A garbage collector on a line that can break or be slow, and what deletions it may not make.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Server;
use bowline_machinery::role;
use bowline_roles::controllers::garbagecollector;
use bowline_sim::stage::{self, Cut, Stage};
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

pub struct World(Stage);

impl Deref for World {
    type Target = Stage;
    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl World {
    pub async fn new(seed: u64) -> Self {
        Self(Stage::new(seed).await)
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        send(&self.server, method, path, body).await
    }

    pub async fn at(&self, path: &str) -> Option<Value> {
        let (code, object) = self.send(Method::GET, path, Value::Null).await;
        (code == 200).then_some(object)
    }

    /// Creates an object and says what a reference to it looks like.
    pub async fn make(&self, collection: &str, name: &str, owners: &[Value]) -> Value {
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

    pub async fn remove(&self, path: &str, policy: &str) {
        let (code, answer) =
            self.send(Method::DELETE, &format!("{path}?propagationPolicy={policy}"), Value::Null).await;
        assert_eq!(code, 200, "{answer}");
    }

    /// Names in a collection and the names of their owners. What the server itself put there is left out.
    pub async fn owners(&self, collection: &str) -> BTreeMap<String, Vec<String>> {
        let list = self.at(collection).await.unwrap();
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

    pub async fn until_gone(&self, path: &str) {
        self.until(&format!("{path} is gone"), async || self.at(path).await.is_none()).await;
    }

    /// Time in which a garbage collector that wants something does it.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(120)).await;
    }

    pub fn start(&self) -> Process {
        self.start_with(None, &[])
    }

    /// Requests with this in their path are refused, and counted.
    pub fn start_without(&self, path: &'static str) -> (Process, Arc<AtomicUsize>) {
        let asked = Arc::<AtomicUsize>::default();
        let count = asked.clone();
        let line = self.line().forbidding(None, path).losing(move |request| {
            count.fetch_add(usize::from(request.uri().path().contains(path)), Ordering::SeqCst);
            false
        });
        let process = self.process(line);
        let ports = process.ports.clone();
        let process = process.with(role::run::<garbagecollector::Collector>(ports, ()));
        (Process { process, wrong: Arc::default() }, asked)
    }

    /// `slow` names plurals whose watches are late, and by how much.
    pub fn start_with(&self, cut: Option<Cut>, slow: &[(&'static str, Duration)]) -> Process {
        let wrong = Arc::<Mutex<Vec<String>>>::default();
        let (server, noted) = (self.server.clone(), wrong.clone());
        let line = self.line().cut(cut).slow(slow).judging(move |path| {
            let (server, noted) = (server.clone(), noted.clone());
            Box::pin(async move {
                let found = forbidden(&server, &path).await;
                noted.lock().unwrap().extend(found);
            })
        });
        let process = self.process(line);
        let ports = process.ports.clone();
        Process { process: process.with(role::run::<garbagecollector::Collector>(ports, ())), wrong }
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

/// Owners of what is to be deleted that neither are gone nor wait for this.
async fn forbidden(server: &Server, path: &str) -> Vec<String> {
    let (_, object) = send(server, Method::GET, path, Value::Null).await;
    let mut wrong = Vec::new();
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        let collection = match owner["kind"].as_str().unwrap() {
            "ConfigMap" => MAPS,
            "Secret" => SECRETS,
            _ => CLASSES,
        };
        let place = format!("{collection}/{}", owner["name"].as_str().unwrap());
        let (code, found) = send(server, Method::GET, &place, Value::Null).await;
        let there = code == 200 && found["metadata"]["uid"] == owner["uid"];
        let finalizers = found["metadata"]["finalizers"].as_array();
        let waits = finalizers.is_some_and(|all| all.iter().any(|name| name == "foregroundDeletion"))
            && found["metadata"]["deletionTimestamp"].is_string();
        if there && !waits {
            wrong.push(format!("{path} has the owner {place}"));
        }
    }
    wrong
}

/// A garbage collector.
pub struct Process {
    process: stage::Process,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub fn writes(&self) -> usize {
        self.process.writes()
    }

    /// Effects that succeeded so far: `action object`.
    pub fn journal(&mut self) -> Vec<String> {
        let done = self.process.journal().into_iter().filter(|entry| entry.error.is_empty());
        done.map(|entry| format!("{} {}", entry.action, entry.object)).collect()
    }

    /// GC-1, as seen by the server at the moment of each deletion.
    pub fn assert_safe(&self) {
        assert_eq!(*self.wrong.lock().unwrap(), Vec::<String>::new());
    }

    /// Ends as in a power cut.
    pub async fn crash(self) {
        self.assert_safe();
        self.process.crash().await;
    }

    pub async fn end(self) {
        self.assert_safe();
        self.process.end().await;
    }
}
