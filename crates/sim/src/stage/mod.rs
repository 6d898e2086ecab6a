//! One API server in memory, a machine in memory, and roles that a test starts on lines that it breaks: for tests of a few
//! roles, where a whole cluster under drawn faults would hide what is asked.

mod line;

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Event, Meta};
use bowline_apiserver::auth::{self, token::TokenSettings};
use bowline_apiserver::kinds::{plugins::Plugins, register};
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::Host;
use bowline_host::fake::{self, FakeHost};
use bowline_machinery::effect::Part;
use bowline_machinery::journal::Entry;
use bowline_machinery::{Effects, Journal, Object, Ports, RunError, client};
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use line::{Cut, Line, Listed, Writes};

const ISSUER: &str = "https://kubernetes.default.svc";
/// Virtual time after which nothing comes true any more.
const PATIENCE: Duration = Duration::from_secs(2_000);

/// What roles are started around.
pub struct Stage {
    pub server: Server,
    pub host: Host,
    pub machine: Arc<FakeHost>,
    /// A person with kubectl.
    pub user: Effects,
}

#[expect(clippy::expect_used, clippy::panic, reason = "a failed step of a test ends the test")]
impl Stage {
    /// Pods get no token unless they ask for one.
    pub async fn new(seed: u64) -> Self {
        Self::admitting(seed, register::register_admission).await
    }

    /// Pods get a token, as in a cluster.
    pub async fn with_tokens(seed: u64) -> Self {
        let all = |registry: &mut Registry| register::register_admission_of(registry, &Plugins::default());
        Self::admitting(seed, all).await
    }

    async fn admitting(seed: u64, plugins: impl FnOnce(&mut Registry)) -> Self {
        let (host, machine) = fake::host(seed);
        let mut registry = Registry::new();
        register::register(&mut registry);
        plugins(&mut registry);
        let tokens = TokenSettings::ephemeral(ISSUER).expect("a key for tokens");
        let access = auth::Settings { tokens: Some(tokens), ..auth::Settings::default() };
        let (clock, random) = (host.clock.clone(), host.random.clone());
        let server = Server::guarded(Store::memory(), registry, clock, random, access);
        server.bootstrap().await.expect("bootstrap");
        let stop = CancellationToken::new();
        let ports = Ports::new(client::in_process(server.clone()), host.clone(), Journal::default(), stop);
        Self { server, host, machine, user: ports.effects("user") }
    }

    pub async fn create<K: Object>(&self, object: &K) -> K {
        self.user.create(object).await.expect("create")
    }

    /// Deletes at once.
    pub async fn delete<K: Object>(&self, object: &K) {
        self.user.delete(object, Some(0)).await.expect("delete");
    }

    pub async fn get<K: Object>(&self, of: &K) -> Option<K> {
        self.user.get_live::<K>(of.namespace(), of.name()).await.expect("get")
    }

    pub async fn list<K: Object>(&self) -> Vec<K> {
        self.user.list_live::<K>("").await.expect("list")
    }

    pub async fn patch<K: Object>(&self, part: Part, object: &K, patch: Value) {
        self.user.patch(part, object, patch).await.expect("patch");
    }

    pub async fn events(&self) -> Vec<Event> {
        self.list::<Event>().await
    }

    /// Reasons of all events.
    pub async fn reasons(&self) -> Vec<String> {
        self.events().await.into_iter().filter_map(|event| event.reason).collect()
    }

    /// Waits, on paused time, until this holds. The longer it takes, the more rarely it is looked at.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if condition().await {
                return;
            }
            tokio::time::sleep((begun.elapsed() / 16).max(Duration::from_millis(1))).await;
        }
        panic!("never came true: {what}");
    }

    /// A line to the API server that works.
    pub fn line(&self) -> Line {
        Line::to(&self.server)
    }

    /// The list of a kind as it is now.
    pub async fn listed(&self, path: &'static str) -> Listed {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let body = self.server.handle(request).await.into_body().collect().await.expect("a list");
        Listed { path, body: body.to_bytes() }
    }

    /// A process on a line of its own, without roles yet.
    pub fn process(&self, line: Line) -> Process {
        let (writes, stop, journal) = (line.writes.clone(), CancellationToken::new(), Journal::default());
        let entries = journal.listen();
        let ports = Ports::new(client::in_process(line), self.host.clone(), journal, stop);
        Process { ports, roles: JoinSet::new(), writes, entries }
    }
}

/// Some roles as one process.
pub struct Process {
    pub ports: Ports,
    roles: JoinSet<Result<(), RunError>>,
    writes: Writes,
    entries: UnboundedReceiver<Entry>,
}

#[expect(clippy::expect_used, reason = "a failed step of a test ends the test")]
impl Process {
    /// Runs a role in it.
    pub fn with(mut self, role: impl Future<Output = Result<(), RunError>> + Send + 'static) -> Self {
        self.roles.spawn(role);
        self
    }

    /// Writes so far, events left out.
    pub fn writes(&self) -> usize {
        self.writes.count()
    }

    /// Effects since the last question.
    pub fn journal(&mut self) -> Vec<Entry> {
        std::iter::from_fn(|| self.entries.try_recv().ok()).collect()
    }

    /// How often an effect was tried since the last question.
    pub fn count(&mut self, action: &str, object: &str) -> usize {
        let entries = self.journal().into_iter();
        entries.filter(|entry| entry.action == action && entry.object == object).count()
    }

    /// Ends as in a power cut.
    pub async fn crash(mut self) {
        self.roles.abort_all();
        while self.roles.join_next().await.is_some() {}
        self.ports.stop.cancel();
    }

    /// Ends as asked; whatever a role says is an error.
    pub async fn end(mut self) {
        self.ports.stop.cancel();
        while let Some(ended) = self.roles.join_next().await {
            ended.expect("no panic").expect("no error");
        }
    }
}
