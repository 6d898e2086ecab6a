//! List and watch: keeps a target equal to what the API server has of a kind.
//!
//! How versions are asked for, mostly as client-go does:
//!
//! | when | resourceVersion | meaning |
//! |---|---|---|
//! | first list of a process that acts on it | absent | the store's own state, not a server's copy; in pages of 500 if the server pages |
//! | first list of a standby | `0` | whatever the server has at hand |
//! | list again | newest seen, `NotOlderThan` | a lagging server must wait or refuse, it may not answer with the past |
//! | a new leader asks, see `refresh` | absent | as above |
//! | the server answers that with 410 or "Too large resource version" | absent | as above |
//! | watch | newest seen | events and bookmarks move it on; 410 leads to a list again |
//!
//! Two things differ. client-go's first list is always at `0`: a kubelet that restarts beside a server whose copy lags would
//! not see its newest pods, and end their containers. And client-go takes what the last list brings even when it is older. Here the target refuses it, because
//! objects would vanish that exist. When the store itself was set back (restored from a backup) this goes on until the
//! process is restarted, and the log says so.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::Meta;
use bowline_host::Random;
use futures::FutureExt;
use kube::core::ObjectList;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::line::jitter;
use crate::client::read::{self, Event};
use crate::client::{Client, Object, one_line};
use crate::recovery::Recovery;
use crate::refresh::Refresh;

const PAGE: u32 = 500;
/// The server ends a watch after this long plus up to as much again, so that watches spread over servers.
const WATCH_MIN: Duration = Duration::from_secs(300);
/// A server that forgets to end a watch, or went silent behind a proxy that answers keep-alives, is left after this much
/// more.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// A watch that ends sooner without an event counts as failed.
const WATCH_SHORT: Duration = Duration::from_secs(1);

/// Which objects of a kind are watched: all, unless restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    pub namespace: Option<String>,
    /// A field selector such as `spec.nodeName=worker-1`.
    pub fields: Option<String>,
    pub labels: Option<String>,
}

impl Scope {
    pub fn fields(selector: impl Into<String>) -> Self {
        Self { fields: Some(selector.into()), ..Self::default() }
    }

    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }
}

/// What a reflector feeds.
pub(crate) trait Target<K>: Send + Sync {
    /// A complete list made at `version`; false when it is older than what was seen, and nothing was changed.
    fn replaced(&self, objects: Vec<K>, version: u64) -> bool;
    fn applied(&self, object: Arc<K>);
    fn deleted(&self, object: Arc<K>);
    /// Everything up to `version` has been delivered.
    fn passed(&self, version: u64);
}

/// Why a list did not succeed.
enum ListError {
    Server(kube::Error),
    /// Older than what was seen.
    Stale {
        version: u64,
        newest: u64,
    },
    Version(String),
}

impl ListError {
    fn text(&self) -> String {
        match self {
            Self::Server(error) => one_line(error),
            Self::Stale { version, newest } => format!(
                "the list was made at version {version}, but {newest} was seen: the API server lags, or its store was set back (then restart this process)"
            ),
            Self::Version(text) => format!("resourceVersion `{text}` of the list is not a number"),
        }
    }
}

/// How a watch ended.
enum Ended {
    /// By the server, in order: go on where it ended.
    Closed,
    /// The server no longer has what follows: list again.
    Expired,
    Failed(String),
}

pub(crate) struct Reflector<K, T> {
    client: Client,
    scope: Scope,
    random: Arc<dyn Random>,
    target: T,
    backoff: Backoff,
    newest: u64,
    /// The server has paged the first list: it has no copy of its own to answer from.
    pages: bool,
    /// The next list asks the store itself.
    ask_store: bool,
    refresh: Arc<Refresh>,
    /// The newest request for a list that a list was tried for.
    tried: u64,
    /// The last request failed.
    failing: bool,
    recovery: Recovery,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Object, T: Target<K>> Reflector<K, T> {
    pub fn new(client: Client, scope: Scope, random: Arc<dyn Random>, target: T) -> Self {
        let backoff = Backoff::new(random.clone());
        let kind = std::marker::PhantomData;
        let refresh = Arc::default();
        Self {
            client,
            scope,
            random,
            target,
            backoff,
            newest: 0,
            pages: false,
            ask_store: true,
            refresh,
            tried: 0,
            failing: false,
            recovery: Recovery::default(),
            kind,
        }
    }

    /// Lists first from a server's copy.
    pub fn standing_by(self, standby: bool) -> Self {
        Self { ask_store: !standby, ..self }
    }

    /// Lists again when asked to.
    pub fn on_request(self, refresh: Arc<Refresh>) -> Self {
        Self { refresh, ..self }
    }

    /// Says there when the server answers again.
    pub fn telling(self, recovery: Recovery) -> Self {
        Self { recovery, ..self }
    }

    pub async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep_on() => {}
        }
    }

    /// A panic, such as in the index of a role, costs a list: the cache must not stand still without a word.
    async fn keep_on(&mut self) {
        while AssertUnwindSafe(self.follow()).catch_unwind().await.is_err() {
            self.failed("taking in a change", "it panicked; the log says where").await;
        }
    }

    async fn follow(&mut self) {
        loop {
            match self.list().await {
                Ok(()) => self.watch().await,
                Err(error) => self.failed("list", &error.text()).await,
            }
        }
    }

    async fn failed(&mut self, what: &str, error: &str) {
        self.failing = true;
        self.pause(what, error).await;
    }

    fn answered(&mut self) {
        if std::mem::take(&mut self.failing) {
            self.recovery.tell();
        }
    }

    async fn pause(&mut self, what: &str, error: &str) {
        let pause = self.backoff.failed();
        tracing::warn!(kind = %K::kind(&()), scope = ?self.scope, error, ?pause, "{what} failed, trying again");
        // A new leader does not wait for pauses of its time as a standby.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.refresh.asked_after(self.tried) => {}
        }
    }

    async fn list(&mut self) -> Result<(), ListError> {
        let request = self.refresh.asked();
        self.tried = request;
        self.ask_store |= self.refresh.is_wanted();
        let listed = match self.list_from((!self.ask_store).then_some(self.newest)).await {
            Err(ListError::Server(error)) if !self.ask_store && self.newest > 0 && unavailable(&error) => {
                tracing::info!(kind = %K::kind(&()), version = self.newest, error = %error, "the API server cannot list at the newest version seen, asking for the latest");
                self.ask_store = true;
                self.list_from(None).await
            }
            other => other,
        };
        let (objects, version) = listed?;
        if !self.target.replaced(objects, version) {
            return Err(ListError::Stale { version, newest: self.newest });
        }
        self.ask_store = false;
        self.newest = self.newest.max(version);
        self.refresh.answer(request);
        self.answered();
        Ok(())
    }

    /// A whole list not older than `version`; without one, as the store has it now.
    async fn list_from(&mut self, version: Option<u64>) -> Result<(Vec<K>, u64), ListError> {
        // With a version a server answers from its copy, all at once; only if it has none does it page.
        let paged = self.pages || version.is_none_or(|version| version == 0);
        let mut page = self.page(version, paged, None).await.map_err(ListError::Server)?;
        let text = page.metadata.resource_version.clone().unwrap_or_default();
        let made = text.parse().map_err(|_| ListError::Version(text))?;
        let mut objects = std::mem::take(&mut page.items);
        while let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) {
            self.pages |= version == Some(0);
            page = match self.page(version, true, Some(&token)).await {
                Ok(page) => page,
                // The pages took longer than the server keeps the past: all at once, then.
                Err(error) if code(&error) == 410 => {
                    let whole = self.page(version, false, None).await.map_err(ListError::Server)?;
                    let text = whole.metadata.resource_version.clone().unwrap_or_default();
                    return Ok((whole.items, text.parse().map_err(|_| ListError::Version(text))?));
                }
                Err(error) => return Err(ListError::Server(error)),
            };
            objects.append(&mut page.items);
        }
        Ok((objects, made))
    }

    async fn page(
        &self,
        version: Option<u64>,
        paged: bool,
        token: Option<&str>,
    ) -> Result<ObjectList<K>, kube::Error> {
        let mut query = Vec::new();
        if paged {
            query.push(("limit", PAGE.to_string()));
        }
        match (token, version) {
            (Some(token), _) => query.push(("continue", token.to_owned())),
            (None, Some(version)) => {
                query.push(("resourceVersion", version.to_string()));
                query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
            }
            (None, None) => {}
        }
        read::list(&self.client, self.request(&query)?).await
    }

    /// Watches on and on, until a list is needed again.
    async fn watch(&mut self) {
        let refresh = self.refresh.clone();
        loop {
            let (begun, before) = (Instant::now(), self.newest);
            let lasts = WATCH_MIN + jitter(&*self.random, WATCH_MIN);
            let ended = tokio::select! {
                biased;
                () = refresh.wanted() => return,
                ended = tokio::time::timeout(lasts + WATCH_GRACE, self.watch_once(lasts)) => {
                    ended.unwrap_or(Ended::Closed)
                }
            };
            match ended {
                Ended::Closed if begun.elapsed() >= WATCH_SHORT || self.newest > before => {}
                Ended::Closed => self.pause("watch", "the API server ended it at once").await,
                Ended::Failed(error) => self.failed("watch", &error).await,
                Ended::Expired => {
                    self.pause("watch", "its version is too old, listing again").await;
                    return;
                }
            }
        }
    }

    async fn watch_once(&mut self, lasts: Duration) -> Ended {
        let query = [
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", self.newest.to_string()),
            ("timeoutSeconds", lasts.as_secs().to_string()),
        ];
        let answer = match self.request(&query) {
            Ok(request) => read::events::<K>(&self.client, request).await,
            Err(error) => Err(error),
        };
        let mut events = match answer {
            Ok(events) => events,
            Err(error) => return failed(&error),
        };
        self.answered();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Applied(object)) => {
                    self.newest = self.newest.max(object.version());
                    self.target.applied(object);
                }
                Ok(Event::Deleted(object)) => {
                    self.newest = self.newest.max(object.version());
                    self.target.deleted(object);
                }
                Ok(Event::Passed(version)) => {
                    self.newest = self.newest.max(version);
                    self.target.passed(version);
                }
                Ok(Event::Failed(status)) if status.code == 410 => return Ended::Expired,
                Ok(Event::Failed(status)) => return Ended::Failed(status.message),
                Err(error) => return failed(&error),
            }
        }
        Ended::Closed
    }

    fn request(&self, query: &[(&str, String)]) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let mut encoded = form_urlencoded::Serializer::new(String::new());
        for (name, selector) in [("fieldSelector", &self.scope.fields), ("labelSelector", &self.scope.labels)]
        {
            if let Some(selector) = selector {
                encoded.append_pair(name, selector);
            }
        }
        encoded.extend_pairs(query);
        let path = K::url_path(&(), self.scope.namespace.as_deref());
        let uri = format!("{path}?{}", encoded.finish());
        http::Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)
    }
}

fn code(error: &kube::Error) -> u16 {
    if let kube::Error::Api(status) = error { status.code } else { 0 }
}

/// Whether a server cannot list at the version asked for: it has forgotten it, or it has not got there yet.
fn unavailable(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 410 || (status.code == 504 && status.message.contains("Too large resource version"))
}

fn failed(error: &kube::Error) -> Ended {
    if code(error) == 410 { Ended::Expired } else { Ended::Failed(one_line(error)) }
}

#[cfg(test)]
mod tests;
