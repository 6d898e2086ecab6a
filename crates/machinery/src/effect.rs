//! Effects on the API server: one write each, with a failpoint before and after, an entry in the journal, and the
//! answer taken into the cache.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, ObjectKey};
use bowline_host::Host;
use kube::core::Request;
use kube::core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, Object, one_line, read};
use crate::informers::Informers;
use crate::journal::{Entry, Journal};
use crate::lease::Leadership;
use crate::metrics::{HistogramFamily, Metrics, families};

/// How an effect that did not succeed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Final: it did not happen and will not.
    Refused,
    /// It may have happened. Only a repeat or its inverse clears that.
    Unknown,
}

/// Objects of one answer to a list: a stored call can have a quarter of a mebibyte.
const PAGE: u32 = 100;

/// In place of a status: neither HTTP nor gRPC has negative ones.
const LEASE_LOST: i32 = -1;

/// An effect that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EffectError {
    pub fate: Fate,
    /// HTTP status or gRPC code, 0 when there was no answer.
    pub code: i32,
    pub message: String,
}

impl EffectError {
    pub fn refused(message: impl Into<String>) -> Self {
        Self { fate: Fate::Refused, code: 0, message: message.into() }
    }
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { fate: Fate::Unknown, code: 0, message: message.into() }
    }
    /// Another client wrote in between: observe and decide again.
    pub fn conflict(&self) -> bool {
        self.code == 409
    }
    pub fn not_found(&self) -> bool {
        self.code == 404
    }
    /// The API server does not let this process do that.
    pub fn forbidden(&self) -> bool {
        self.code == 403
    }
    /// The effect was not begun, because this process does not hold its lease.
    pub fn lease_lost(&self) -> bool {
        self.code == LEASE_LOST
    }
    pub(crate) fn without_lease(name: &str) -> Self {
        let message = format!(
            "this process does not hold the lease `{name}` (any more); another replica may work on this"
        );
        Self { fate: Fate::Refused, code: LEASE_LOST, message }
    }
}

impl From<kube::Error> for EffectError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let fate = if status.code < 500 { Fate::Refused } else { Fate::Unknown };
                // A 404 that names no object (a proxy's page, a kind that is not served yet) says nothing about ours.
                let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
                let code = if status.code == 404 && !named { 0 } else { status.code.into() };
                Self { fate, code, message: status.message.clone() }
            }
            other => Self::unknown(one_line(&other)),
        }
    }
}

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
}

/// The effects of one component.
#[derive(Clone)]
pub struct Effects {
    component: &'static str,
    client: Client,
    host: Host,
    journal: Journal,
    informers: Informers,
    leadership: Option<Leadership>,
    calls: Option<CallMetrics>,
}

/// Where CSI calls are measured, and as whose.
#[derive(Clone)]
struct CallMetrics {
    metrics: Metrics,
    family: &'static HistogramFamily<4>,
    driver: String,
    migrated: Option<bool>,
}

impl Effects {
    pub fn new(
        component: &'static str,
        client: Client,
        host: Host,
        journal: Journal,
        informers: Informers,
    ) -> Self {
        Self { component, client, host, journal, informers, leadership: None, calls: None }
    }

    /// The same effects, each refused unless the lease is held when it begins. Reads are not effects, and questions that
    /// a standby asks while it starts (of its driver) need effects without a lease.
    pub fn led_by(self, leadership: Leadership) -> Self {
        Self { leadership: Some(leadership), ..self }
    }

    /// The same effects, with the CSI calls of a sidecar measured; `driver` is empty while its name is not known.
    pub fn measured(self, metrics: &Metrics, driver: &str) -> Self {
        let (metrics, driver) = (metrics.clone(), driver.to_owned());
        let family = &families::CSI_SIDECAR_OPERATIONS;
        Self { calls: Some(CallMetrics { metrics, family, driver, migrated: None }), ..self }
    }

    /// The same effects, with the CSI calls of the kubelet to this driver measured under its own name.
    pub fn measured_on_node(self, metrics: &Metrics, driver: &str) -> Self {
        let (metrics, driver) = (metrics.clone(), driver.to_owned());
        let family = &families::CSI_OPERATIONS;
        Self { calls: Some(CallMetrics { metrics, family, driver, migrated: Some(false) }), ..self }
    }

    /// Measures one CSI call.
    pub(crate) fn measure_call(&self, method: &str, code: tonic::Code, took: Duration) {
        if let Some(CallMetrics { metrics, family, driver, migrated }) = &self.calls {
            metrics.csi_call(family, (driver, method), code, *migrated, took);
        }
    }

    pub async fn create<K: Object>(&self, object: &K) -> Result<K, EffectError> {
        let body = encode(object)?;
        let request = path_of::<K>(object.namespace()).create(&PostParams::default(), body);
        self.write("create", object, request).await
    }

    /// Replaces the object; its resourceVersion guards against lost updates.
    pub async fn replace<K: Object>(&self, part: Part, object: &K) -> Result<K, EffectError> {
        let body = encode(object)?;
        let path = path_of::<K>(object.namespace());
        let parameters = PostParams::default();
        match part {
            Part::Main => self.write("update", object, path.replace(object.name(), &parameters, body)).await,
            Part::Status => {
                let request = path.replace_subresource("status", object.name(), &parameters, body);
                self.write("update status", object, request).await
            }
        }
    }

    /// A merge patch. With `metadata.resourceVersion` in it, a conflict is refused with 409.
    pub async fn patch<K: Object>(&self, part: Part, object: &K, patch: Value) -> Result<K, EffectError> {
        self.patched(part, object, &Patch::Merge(patch)).await
    }

    /// A strategic merge patch, where list entries are merged by key.
    pub async fn patch_strategic<K: Object>(
        &self,
        part: Part,
        object: &K,
        patch: Value,
    ) -> Result<K, EffectError> {
        self.patched(part, object, &Patch::Strategic(patch)).await
    }

    async fn patched<K: Object>(
        &self,
        part: Part,
        object: &K,
        patch: &Patch<Value>,
    ) -> Result<K, EffectError> {
        let path = path_of::<K>(object.namespace());
        let parameters = PatchParams::default();
        match part {
            Part::Main => self.write("patch", object, path.patch(object.name(), &parameters, patch)).await,
            Part::Status => {
                let request = path.patch_subresource("status", object.name(), &parameters, patch);
                self.write("patch status", object, request).await
            }
        }
    }

    /// Deletes this very object (by UID). Already gone is success.
    pub async fn delete<K: Object>(&self, object: &K, grace_seconds: Option<u32>) -> Result<(), EffectError> {
        let uid = object.meta().uid.clone();
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let parameters =
            DeleteParams { preconditions, grace_period_seconds: grace_seconds, ..DeleteParams::default() };
        let request = path_of::<K>(object.namespace()).delete(object.name(), &parameters);
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        let done = self.run("delete", &describe(object), read::deleted::<K>(&self.client, request)).await;
        match done {
            Ok(Some(last)) => {
                self.note_deletion(last);
                Ok(())
            }
            Ok(None) => {
                self.note_gone(object);
                Ok(())
            }
            Err(error) if error.not_found() => {
                self.note_gone(object);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// POSTs to a subresource that answers with a Status, such as `pods/binding`.
    pub async fn post<K: Object>(
        &self,
        subresource: &str,
        object: &K,
        body: &Value,
    ) -> Result<(), EffectError> {
        let body = encode(body)?;
        let path = path_of::<K>(object.namespace());
        let request = path.create_subresource(subresource, object.name(), &PostParams::default(), body);
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        self.run(subresource, &describe(object), self.client.request::<Value>(request)).await.map(drop)
    }

    /// POSTs to a subresource that answers with something of its own, such as `serviceaccounts/token`.
    pub async fn ask<K: Object, T: serde::de::DeserializeOwned>(
        &self,
        subresource: &str,
        namespace: &str,
        name: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, EffectError> {
        let body = encode(body)?;
        let path = path_of::<K>(namespace);
        let request = path.create_subresource(subresource, name, &PostParams::default(), body);
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        let object = format!("{} {namespace}/{name}", K::kind(&()).to_lowercase());
        self.run(subresource, &object, self.client.request::<T>(request)).await
    }

    /// Reads an object of a kind that is not watched, and keeps what it found in the cache.
    pub async fn read_through<K: Object>(&self, key: &ObjectKey) -> Result<(), EffectError> {
        let cache = self.informers.unwatched::<K>();
        let before = cache.get(key).map(|object| object.version());
        let found = self.get_live::<K>(&key.namespace, &key.name).await?;
        cache.fetched(key, found.map(Arc::new), before);
        Ok(())
    }

    /// Reads past the cache, where acting on an old copy would be unsafe.
    pub async fn get_live<K: Object>(&self, namespace: &str, name: &str) -> Result<Option<K>, EffectError> {
        let request = path_of::<K>(namespace).get(name, &Default::default());
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        match read::object::<K>(&self.client, request).await.map_err(EffectError::from) {
            Ok(object) => Ok(Some(Arc::unwrap_or_clone(object))),
            Err(error) if error.not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same for a role that may list a kind and not get one object of it.
    pub async fn find_live<K: Object>(&self, namespace: &str, name: &str) -> Result<Option<K>, EffectError> {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let request = path_of::<K>(namespace).list(&named);
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        let list = self.client.request::<kube::core::ObjectList<K>>(request).await?;
        Ok(list.items.into_iter().next())
    }

    /// Lists a namespace past the cache, where acting on an old copy would be unsafe. One answer does not hold all of a large
    /// list.
    pub async fn list_live<K: Object>(&self, namespace: &str) -> Result<Vec<K>, EffectError> {
        self.list_labelled(namespace, "").await
    }

    /// The same, of objects whose labels match the selector.
    pub async fn list_labelled<K: Object>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<K>, EffectError> {
        let (mut items, mut page) = (Vec::new(), ListParams::default().labels(selector).limit(PAGE));
        loop {
            let request = path_of::<K>(namespace).list(&page);
            let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
            let list = read::list::<K>(&self.client, request).await?;
            items.extend(list.items);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(items),
            }
        }
    }

    async fn write<K: Object>(
        &self,
        verb: &'static str,
        object: &K,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<K, EffectError> {
        let request = request.map_err(|e| EffectError::refused(e.to_string()))?;
        let answer = self.run(verb, &describe(object), read::object::<K>(&self.client, request)).await;
        match &answer {
            // Taking the last finalizer off deletes; the answer is then the object's last state.
            Ok(answer) if answer.deleting() => self.note_deletion(answer.clone()),
            Ok(answer) => {
                if let Some(cache) = self.informers.known::<K>() {
                    cache.note(answer.clone());
                }
            }
            Err(error) if error.not_found() && verb != "create" => self.note_gone(object),
            Err(_) => {}
        }
        answer.map(Arc::unwrap_or_clone)
    }

    // A kind that no role reads has no cache, and a write starts no watch of it.
    fn note_gone<K: Object>(&self, object: &K) {
        if let Some(cache) = self.informers.known::<K>() {
            cache.note_gone(object);
        }
    }

    fn note_deletion<K: Object>(&self, object: Arc<K>) {
        let Some(cache) = self.informers.known::<K>() else { return };
        // The finalizers of a namespace stand in its spec: only the watch knows when it is gone.
        if K::kind(&()) == "Namespace" { cache.note(object) } else { cache.note_deletion(object) }
    }

    /// Runs one effect of any sort between its two failpoints and writes it to the journal.
    pub async fn run<T, E: Into<EffectError>>(
        &self,
        action: &str,
        object: &str,
        effect: impl Future<Output = Result<T, E>>,
    ) -> Result<T, EffectError> {
        if let Some(leadership) = &self.leadership {
            leadership.check()?;
        }
        let kind = object.split(' ').next().unwrap_or_default();
        let point = format!("{}.{}.{}", self.component, action.replace(' ', "-"), kind);
        self.host.failpoints.hit(&format!("{point}.before"));
        let started = Instant::now();
        // A request that waits for a connection, or is sent again, must not land when another replica leads.
        let result = tokio::select! {
            biased;
            lost = lost(self.leadership.as_ref()) => Err(lost),
            result = effect => result.map_err(Into::into),
        };
        self.host.failpoints.hit(&format!("{point}.after"));
        self.journal.record(Entry {
            at: self.host.clock.now(),
            component: self.component,
            action: action.to_owned(),
            object: object.to_owned(),
            took: started.elapsed(),
            error: result.as_ref().err().map(|e: &EffectError| e.message.clone()).unwrap_or_default(),
        });
        result
    }
}

/// The error of an effect whose lease was lost on the way: it may have landed.
async fn lost(leadership: Option<&Leadership>) -> EffectError {
    match leadership {
        Some(leadership) => {
            leadership.lost().await;
            EffectError { fate: Fate::Unknown, ..EffectError::without_lease(leadership.name()) }
        }
        None => std::future::pending().await,
    }
}

/// `persistentvolumeclaim default/data`.
pub fn describe<K: Object>(object: &K) -> String {
    format!("{} {}", K::kind(&()).to_lowercase(), object.key())
}

fn path_of<K: Object>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), (!namespace.is_empty()).then_some(namespace)))
}

fn encode(body: &impl serde::Serialize) -> Result<Vec<u8>, EffectError> {
    serde_json::to_vec(body).map_err(|e| EffectError::refused(format!("encode request: {e}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bowline_api::Lease;
    use bowline_host::fake;
    use http::Response;
    use kube::client::Body;
    use kube::core::response::Status;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::client::in_process;
    use crate::ports::Ports;

    #[tokio::test]
    async fn long_lists_come_in_pages() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = asked.clone();
        let answer = move |request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let next = if query.contains("continue=") { json!({}) } else { json!({"continue": "page-2"}) };
            let name = if query.contains("continue=") { "b" } else { "a" };
            let items = json!([{"metadata": {"name": name, "namespace": "ns"}, "spec": {}}]);
            let list = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": next, "items": items});
            log.lock().unwrap().push(query);
            async move { Ok::<_, std::io::Error>(Response::new(Body::from(list.to_string().into_bytes()))) }
        };
        let (host, _) = fake::host(1);
        let stop = CancellationToken::new();
        let ports = Ports::new(in_process(tower::service_fn(answer)), host, Journal::default(), stop);
        let leases = ports.effects("test").list_labelled::<Lease>("ns", "a=b").await.unwrap();
        let names: Vec<&str> = leases.iter().map(|lease| lease.name()).collect();
        assert_eq!(names, ["a", "b"]);
        let asked = asked.lock().unwrap();
        assert!(
            asked.iter().all(|query| query.contains("limit=") && query.contains("labelSelector=")),
            "{asked:?}"
        );
        assert!(asked[1].contains("continue=page-2"), "{asked:?}");
    }

    /// Goal: a role that may list volumes and not get one reads one past its cache all the same.
    #[tokio::test]
    async fn one_object_is_found_by_a_list_of_its_name() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = asked.clone();
        let answer = move |request: http::Request<Body>| {
            log.lock().unwrap().push(request.uri().to_string());
            let items = json!([{"metadata": {"name": "a", "namespace": "ns"}, "spec": {}}]);
            let list = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {}, "items": items});
            async move { Ok::<_, std::io::Error>(Response::new(Body::from(list.to_string().into_bytes()))) }
        };
        let (host, _) = fake::host(1);
        let stop = CancellationToken::new();
        let ports = Ports::new(in_process(tower::service_fn(answer)), host, Journal::default(), stop);
        let found = ports.effects("test").find_live::<Lease>("ns", "a").await.unwrap();
        assert_eq!(found.map(|lease| lease.name().to_owned()), Some("a".to_owned()));
        let asked = asked.lock().unwrap();
        assert!(asked[0].contains("/leases?") && asked[0].contains("metadata.name%3Da"), "{asked:?}");
    }

    #[test]
    fn only_a_404_that_names_an_object_says_that_it_is_gone() {
        let error = |body: Value| {
            let status: Status = serde_json::from_value(body).unwrap();
            EffectError::from(kube::Error::Api(Box::new(status)))
        };
        let named = json!({"code": 404, "reason": "NotFound", "details": {"name": "data", "kind": "pods"}});
        assert!(error(named).not_found());
        assert!(
            !error(json!({"code": 404, "details": {"kind": "pods"}})).not_found(),
            "a kind that is not served"
        );
        let page = error(json!({"code": 404, "message": "404 page not found"}));
        assert!(!page.not_found() && page.fate == Fate::Refused, "the page of a proxy");
    }
}
