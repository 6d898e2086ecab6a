//! Kubernetes events: what people see in `kubectl describe`. Best effort, never in the way of an effect.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bowline_api::{Event, Meta};
use bowline_host::Host;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{Client, Object, one_line};
use crate::recent::Recent;

/// Events waiting to be written; more are dropped rather than slowing a role down.
const BACKLOG_MAX: usize = 4096;
/// Distinct events remembered for counting repeats.
const MEMORY_MAX: usize = 4096;
/// Upstream truncates longer messages.
const MESSAGE_MAX: usize = 1024;

/// Upstream's spam filter: events of one component about one object come in bursts of this many, and then one in this
/// time.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// Upstream writes an event at most this often before it gives up.
const TRIES: u32 = 12;

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
            let mut writer = Writer::new(client, host);
            loop {
                let draft = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    draft = incoming.recv() => draft,
                };
                let Some(draft) = draft else { return };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    written = AssertUnwindSafe(writer.write(draft)).catch_unwind() => {
                        if written.is_err() {
                            tracing::error!("an event could not be written: this is a defect of Bowline");
                        }
                    }
                }
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
        match self.sink.drafts.try_send(draft) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => tracing::warn!(reason, "event dropped: too many are waiting"),
            Err(TrySendError::Closed(_)) => tracing::debug!(reason, "event dropped: the process is ending"),
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
    written: Recent<String, (String, i32)>,
    /// By component and object.
    budgets: Recent<String, Budget>,
}

/// How many events may still be written, as of a time on the monotonic clock: a step of the wall clock neither stops
/// events nor lets a flood through.
struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    /// Whether one more may be written.
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.since).as_secs() / REFILL.as_secs();
        let earned = u32::try_from(earned).unwrap_or(BURST).min(BURST);
        self.since = if self.left + earned >= BURST { now } else { self.since + earned * REFILL };
        self.left = (self.left + earned).min(BURST);
        let allowed = self.left > 0;
        self.left -= u32::from(allowed);
        allowed
    }
}

impl Writer {
    fn new(client: Client, host: Host) -> Self {
        Self { client, host, written: Recent::new(MEMORY_MAX), budgets: Recent::new(MEMORY_MAX) }
    }

    async fn write(&mut self, draft: Draft) {
        let namespace = draft.about.namespace.clone().unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let identity =
            format!("{:?}", (&draft.about.uid, draft.type_, draft.reason, &draft.message, &draft.component));
        let now = Time(self.host.clock.now());
        if !self.allowed(&draft) {
            tracing::debug!(reason = draft.reason, object = ?draft.about.name, "event dropped: too many about one object");
            return;
        }
        if let Some((name, count)) = self.written.get_mut(&identity) {
            *count += 1;
            let (name, patch) = (name.clone(), json!({"count": *count, "lastTimestamp": now}));
            let patch = Patch::Merge(patch);
            let parameters = PatchParams::default();
            match self.until_answered(|| api.patch(&name, &parameters, &patch)).await {
                // It is older than the server keeps events.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    return tracing::debug!(error = one_line(&error), event = name, "event not repeated");
                }
                Ok(_) => return,
            }
        }
        let event = draft.into_event(&namespace, self.host.random.next_u64(), now);
        let name = event.name().to_owned();
        let parameters = PostParams::default();
        match self.until_answered(|| api.create(&parameters, &event)).await {
            Ok(_) => self.written.insert(identity, (name, 1)),
            // The name is ours alone: a try before this one landed without an answer.
            Err(kube::Error::Api(status)) if status.code == 409 => self.written.insert(identity, (name, 1)),
            Err(error) => tracing::debug!(error = one_line(&error), event = name, "event not written"),
        }
    }

    /// Tries again with pauses while the server cannot be reached or cannot answer; what it refuses stays refused.
    async fn until_answered<T, F>(&self, write: impl Fn() -> F) -> Result<T, kube::Error>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut backoff = Backoff::new(self.host.random.clone());
        for _ in 1..TRIES {
            match write().await {
                Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                    return Err(kube::Error::Api(status));
                }
                Err(error) => {
                    tracing::debug!(error = one_line(&error), "event not written, trying again");
                    tokio::time::sleep(backoff.failed()).await;
                }
                Ok(done) => return Ok(done),
            }
        }
        write().await
    }

    fn allowed(&mut self, draft: &Draft) -> bool {
        let about = &draft.about;
        let source =
            format!("{:?}", (&draft.component, &about.kind, &about.namespace, &about.name, &about.uid));
        let now = Instant::now();
        if let Some(budget) = self.budgets.get_mut(&source) {
            return budget.take(now);
        }
        let mut budget = Budget { left: BURST, since: now };
        let allowed = budget.take(now);
        self.budgets.insert(source, budget);
        allowed
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

#[cfg(test)]
mod tests {
    use bowline_api::ConfigMap;

    use super::*;
    use crate::fake_api::{self, Seen, json_answer};

    fn writer() -> (Writer, Seen) {
        let (client, seen) = fake_api::client(|_, body| Some(json_answer(200, body)));
        let host = bowline_host::fake::host(1).0;
        (Writer::new(client, host), seen)
    }

    fn draft(object: &str) -> Draft {
        let mut about = ConfigMap::default();
        about.metadata.name = Some(object.into());
        about.metadata.uid = Some(object.into());
        let (type_, reason, message) = ("Normal", "Waiting", "for a volume".to_owned());
        Draft { about: reference_to(&about), type_, reason, message, component: "test".into() }
    }

    /// Methods of the requests since the last look.
    fn methods(seen: &Seen) -> Vec<String> {
        let lines = std::mem::take(&mut *seen.lock().unwrap());
        lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_written_once_the_server_answers_again() {
        let answers = std::sync::Mutex::new(vec![200, 409, 500, 503]);
        let (client, seen) = fake_api::client(move |_, body| match answers.lock().unwrap().pop() {
            None | Some(200) => Some(json_answer(200, body)),
            Some(code) => Some(fake_api::status(code, "Trouble", "not now")),
        });
        let mut writer = Writer::new(client, bowline_host::fake::host(1).0);
        writer.write(draft("a")).await;
        assert_eq!(methods(&seen), ["POST", "POST", "POST"], "the third says that the second had landed");
        writer.write(draft("a")).await;
        assert_eq!(methods(&seen), ["PATCH"], "it is known");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_refused_is_not_tried_again() {
        let (client, seen) = fake_api::client(|_, _| Some(fake_api::status(403, "Forbidden", "no")));
        let mut writer = Writer::new(client, bowline_host::fake::host(1).0);
        writer.write(draft("a")).await;
        assert_eq!(methods(&seen), ["POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_event_that_was_not_repeated_for_longest_is_forgotten_first() {
        let (mut writer, seen) = writer();
        for number in 0..MEMORY_MAX {
            writer.write(draft(&format!("{number:05}"))).await;
        }
        methods(&seen);
        writer.write(draft("00000")).await;
        writer.write(draft("99999")).await;
        writer.write(draft("00000")).await;
        writer.write(draft("00001")).await;
        assert_eq!(methods(&seen), ["PATCH", "POST", "PATCH", "POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_about_one_object_is_cut_and_refilled_by_time() {
        let (mut writer, seen) = writer();
        for _ in 0..100 {
            writer.write(draft("a")).await;
        }
        assert_eq!(methods(&seen).len(), 25);
        tokio::time::advance(std::time::Duration::from_secs(601)).await;
        for _ in 0..100 {
            writer.write(draft("a")).await;
        }
        assert_eq!(methods(&seen).len(), 2);
    }
}
