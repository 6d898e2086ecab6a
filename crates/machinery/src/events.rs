//! Kubernetes events: what people see in `kubectl describe`. Best effort, never in the way of an effect.

use std::collections::BTreeMap;

use bowline_api::{Event, Meta};
use bowline_host::Host;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Object};

/// Events waiting to be written; more are dropped rather than slowing a role down.
const BACKLOG_MAX: usize = 4096;
/// Distinct events remembered for counting repeats.
const MEMORY_MAX: usize = 4096;
/// Upstream truncates longer messages.
const MESSAGE_MAX: usize = 1024;

/// Upstream's spam filter: events of one component about one object come in bursts of this many, and then one in this
/// time.
const BURST: i64 = 25;
const REFILL: i64 = 300;

/// One event to write.
#[derive(Debug, Clone)]
struct Draft {
    about: ObjectReference,
    type_: &'static str,
    reason: &'static str,
    message: String,
    component: String,
}

/// Writes events in the background, in order.
#[derive(Clone)]
pub struct Sink {
    drafts: mpsc::Sender<Draft>,
}

impl Sink {
    pub fn start(client: Client, host: Host, stop: CancellationToken) -> Self {
        let (drafts, mut incoming) = mpsc::channel::<Draft>(BACKLOG_MAX);
        tokio::spawn(async move {
            let mut writer = Writer { client, host, written: BTreeMap::new(), budgets: BTreeMap::new() };
            loop {
                let draft = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    draft = incoming.recv() => draft,
                };
                let Some(draft) = draft else { return };
                writer.write(draft).await;
            }
        });
        Self { drafts }
    }
}

/// Writes events as one component.
#[derive(Clone)]
pub struct Recorder {
    component: String,
    sink: Sink,
}

impl Recorder {
    pub fn new(component: String, sink: Sink) -> Self {
        Self { component, sink }
    }

    pub fn normal<K: Object>(&self, object: &K, reason: &'static str, message: impl Into<String>) {
        self.record(object, "Normal", reason, message.into());
    }

    pub fn warning<K: Object>(&self, object: &K, reason: &'static str, message: impl Into<String>) {
        self.record(object, "Warning", reason, message.into());
    }

    /// About an object of a kind that is known only at run time.
    pub fn warning_about(&self, about: ObjectReference, reason: &'static str, message: impl Into<String>) {
        self.send(about, "Warning", reason, message.into());
    }

    fn record<K: Object>(&self, object: &K, type_: &'static str, reason: &'static str, message: String) {
        self.send(reference_to(object), type_, reason, message);
    }

    fn send(&self, about: ObjectReference, type_: &'static str, reason: &'static str, mut message: String) {
        if message.len() > MESSAGE_MAX {
            let end = (0..=MESSAGE_MAX).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
            message.truncate(end);
        }
        let draft = Draft { about, type_, reason, message, component: self.component.clone() };
        if self.sink.drafts.try_send(draft).is_err() {
            tracing::warn!(reason, "event dropped: too many are waiting");
        }
    }
}

/// A full reference to an object, as events and claimRef carry it.
pub fn reference_to<K: Object>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: object.meta().name.clone(),
        namespace: object.meta().namespace.clone(),
        uid: object.meta().uid.clone(),
        resource_version: object.meta().resource_version.clone(),
        field_path: None,
    }
}

struct Writer {
    client: Client,
    host: Host,
    /// Event name and count by what makes two events the same.
    written: BTreeMap<String, (String, i32)>,
    /// By component and object.
    budgets: BTreeMap<String, Budget>,
}

/// How many events may still be written, as of a time in seconds.
struct Budget {
    left: i64,
    since: i64,
}

impl Budget {
    /// Whether one more may be written.
    fn take(&mut self, now: i64) -> bool {
        let earned = (now - self.since).max(0) / REFILL;
        self.since = if self.left + earned >= BURST { now } else { self.since + earned * REFILL };
        self.left = (self.left + earned).min(BURST);
        let allowed = self.left > 0;
        self.left -= i64::from(allowed);
        allowed
    }
}

impl Writer {
    async fn write(&mut self, draft: Draft) {
        let namespace = draft.about.namespace.clone().unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let identity =
            format!("{:?}", (&draft.about.uid, draft.type_, draft.reason, &draft.message, &draft.component));
        let now = Time(self.host.clock.now());
        if !self.allowed(&draft, now.0.as_second()) {
            tracing::debug!(reason = draft.reason, object = ?draft.about.name, "event dropped: too many about one object");
            return;
        }
        if let Some((name, count)) = self.written.get_mut(&identity) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": now});
            if api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
                return;
            }
        }
        let event = draft.into_event(&namespace, self.host.random.next_u64(), now);
        let name = event.name().to_owned();
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {
                if self.written.len() >= MEMORY_MAX {
                    self.written.pop_first();
                }
                self.written.insert(identity, (name, 1));
            }
            Err(error) => tracing::debug!(%error, event = name, "event not written"),
        }
    }
}

impl Writer {
    fn allowed(&mut self, draft: &Draft, now: i64) -> bool {
        let about = &draft.about;
        let source =
            format!("{:?}", (&draft.component, &about.kind, &about.namespace, &about.name, &about.uid));
        if self.budgets.len() >= MEMORY_MAX && !self.budgets.contains_key(&source) {
            self.budgets.pop_first();
        }
        self.budgets.entry(source).or_insert(Budget { left: BURST, since: now }).take(now)
    }
}

impl Draft {
    fn into_event(self, namespace: &str, unique: u64, now: Time) -> Event {
        let name = format!("{}.{unique:016x}", self.about.name.as_deref().unwrap_or("unknown"));
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.into()),
                ..Default::default()
            },
            involved_object: self.about,
            reason: Some(self.reason.into()),
            message: Some(self.message),
            type_: Some(self.type_.into()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            reporting_component: Some(self.component.clone()),
            source: Some(EventSource { component: Some(self.component), host: None }),
            ..Default::default()
        }
    }
}
