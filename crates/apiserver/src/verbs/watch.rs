//! GET with `watch`: a stream of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::list::{version_of_one, wait_for};
use super::watch_state::State;
use super::{Call, Outcome, Reply, list_options};
use crate::core::Core;
use crate::output::events::Encoder;
use crate::output::gather::Gather;
use crate::registry::seen;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Event, EventKind, Gone, PastHold, Stored, Watcher};

/// How long a watch lasts if the client does not say.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// A client may name any number of seconds, and no clock reaches that far.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// So often a client hears how far it is, unless events say so.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Objects and events that are looked at before others have their turn, however few of them the client wants.
const LOOKED_AT_MAX: usize = 512;

struct Watch {
    call: Call,
    core: Arc<Core>,
    selector: Selector,
    watcher: Watcher,
    encoder: Encoder,
    /// What is there when the watch begins and was not sent yet.
    state: Option<State>,
    /// Until everything was read that happened while the state was being sent.
    past: Option<PastHold>,
    /// What has happened since and was not sent yet.
    events: VecDeque<Arc<Event>>,
    /// Encoded, to be sent next.
    out: Gather,
    /// When the next bookmark is due, if another one is wanted.
    bookmark: Option<Instant>,
    /// The version the client knows of.
    known: u64,
    end: Instant,
    ended: bool,
    /// The kind itself is gone.
    gone: CancellationToken,
}

pub async fn run(core: &Arc<Core>, mut call: Call) -> Result<Reply, Status> {
    // It has no meaning for a watch, and would be kept as long as the watch lasts.
    call.body = Bytes::new();
    let kind = call.kind.as_ref();
    let selector = Selector::parse(call.query.get("labelSelector"), call.query.get("fieldSelector"), kind)?;
    list_options::check_watch(&call.query)?;
    let seconds = call.query.count("timeoutSeconds")?;
    let bookmarks = call.query.flag("allowWatchBookmarks");
    let version = version_of_one(&call)?;
    let initial = initial_events(&call, version);
    if let Some(version) = version {
        wait_for(core, version).await?;
    }

    let table = &call.info().table;
    let (form, include) = ((call.form, call.encoding), call.query.get("includeObject"));
    let encoder = Encoder::new(call.kind.clone(), form, include, core.shared_frames.clone());
    let now = Instant::now();
    let end = now + seconds.map_or(TIMEOUT, Duration::from_secs).min(TIMEOUT_MAX);
    let mut watch = Watch {
        watcher: core.store.watch(table, core.store.version()).map_err(Status::internal)?,
        core: core.clone(),
        selector,
        encoder,
        state: None,
        past: None,
        events: VecDeque::new(),
        out: Gather::default(),
        bookmark: next_bookmark(now, end).filter(|_| bookmarks),
        known: version.unwrap_or(0),
        end,
        ended: false,
        gone: call.kind.custom().map(|custom| custom.gone.clone()).unwrap_or_default(),
        call,
    };
    match initial {
        Initial::Nothing(Some(after)) => match core.store.watch(&watch.call.info().table, after) {
            Ok(watcher) => watch.watcher = watcher,
            // Inside the stream, where clients look for it.
            Err(gone) => watch.fail(&expired(gone)),
        },
        Initial::Nothing(None) => {}
        Initial::State { mark_end } => watch.begin_with_state(mark_end)?,
    }
    let chunks = stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    });
    Ok(Reply::plain(Outcome::Watch(Box::pin(chunks), end)))
}

/// What a watch starts with.
enum Initial {
    /// Events after this version, or from now on.
    Nothing(Option<u64>),
    /// Everything that is there as ADDED; `mark_end` adds the bookmark that says so.
    State { mark_end: bool },
}

fn initial_events(call: &Call, version: Option<u64>) -> Initial {
    let asked = call.query.has("sendInitialEvents").then(|| call.query.flag("sendInitialEvents"));
    match (asked, version) {
        (Some(true), _) => Initial::State { mark_end: call.query.flag("allowWatchBookmarks") },
        (None, None) => Initial::State { mark_end: false },
        (_, after) => Initial::Nothing(after),
    }
}

/// The next bookmark after one that was due: before long, and in any case right before the end.
fn next_bookmark(after: Instant, end: Instant) -> Option<Instant> {
    let last = end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(end);
    Some(last.min(after + BOOKMARK_EVERY)).filter(|next| *next > after)
}

fn expired(gone: Gone) -> Status {
    Status::expired(format!("too old resource version: {} ({})", gone.wanted, gone.oldest))
}

impl Watch {
    /// The current state as events, and a watcher for what comes after it.
    fn begin_with_state(&mut self, mark_end: bool) -> Result<(), Status> {
        // First, so that nothing after the state is forgotten.
        self.past = self.core.store.hold_past(&self.call.info().table);
        let state = State::begin(&self.core, &self.call, mark_end).map_err(Status::internal)?;
        let table = &self.call.info().table;
        self.watcher = self.core.store.watch(table, state.version).map_err(Status::internal)?;
        self.known = state.version;
        self.state = Some(state);
        Ok(())
    }

    fn fail(&mut self, status: &Status) {
        self.out.push(self.encoder.error(status));
        self.ended = true;
    }

    /// Encodes the next piece of what is there already, if anything is left of it. Says whether that is so: others have
    /// their turn before the rest.
    fn fill(&mut self) -> bool {
        let now = self.core.clock.now();
        let mut looked_at = 0;
        while !self.ended && !self.out.is_enough() {
            if looked_at == LOOKED_AT_MAX {
                return true;
            }
            looked_at += 1;
            if let Some(state) = &mut self.state {
                match state.next(&self.core, &self.call) {
                    Ok(Some(object)) if self.selector.matches(&object, self.call.kind.as_ref()) => {
                        self.encoder.event(EventKind::Added, &object, now, &mut self.out);
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        if state.mark_end {
                            self.out.push(self.encoder.bookmark(state.version, true));
                        }
                        self.state = None;
                    }
                    Err(gone) => self.fail(&expired(gone)),
                }
            } else if let Some(event) = self.events.pop_front() {
                self.encode(&event, now);
            } else {
                return false;
            }
        }
        false
    }

    /// Takes what happened while the state was being sent. Afterwards the past need not be kept for this watch.
    fn catch_up(&mut self) {
        match self.watcher.ready() {
            Ok(events) if events.is_empty() => self.past = None,
            events => self.take(events),
        }
    }

    fn take(&mut self, events: Result<Vec<Arc<Event>>, Gone>) {
        match events {
            Ok(events) => {
                self.known = events.last().map_or(self.known, |event| event.version);
                self.events = events.into();
            }
            Err(gone) => self.fail(&expired(gone)),
        }
    }

    /// The next bytes of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.call.closing.is_cancelled() {
                return None;
            }
            let more = self.fill();
            if let Some(piece) = self.out.pop() {
                return Some(piece);
            }
            // Also with events at hand: a watch of a busy kind would never end.
            if self.ended || Instant::now() >= self.end {
                return None;
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            if self.past.is_some() {
                self.catch_up();
                continue;
            }
            let timer = self.bookmark.unwrap_or(self.end);
            tokio::select! {
                biased;
                () = self.call.closing.cancelled() => return None,
                events = self.watcher.next() => self.take(events),
                // After the events, so that the last ones are seen.
                () = self.gone.cancelled() => return None,
                () = sleep_until(timer) => match self.bookmark.take() {
                    None => return None,
                    Some(due) => {
                        self.bookmark = next_bookmark(due, self.end);
                        // A client that knows the latest version needs no bookmark.
                        let version = self.watcher.settled().filter(|version| *version > self.known);
                        if let Some(version) = version {
                            self.known = version;
                            return Some(self.encoder.bookmark(version, false));
                        }
                    }
                },
            }
        }
    }

    /// One event as this watcher sees it: entering a selector is ADDED, leaving it is DELETED.
    fn encode(&mut self, event: &Event, now: jiff::Timestamp) {
        if self.call.namespace.as_ref().is_some_and(|wanted| *wanted != event.object.key.namespace) {
            return;
        }
        let out = &mut self.out;
        if self.selector.is_everything() {
            return self.encoder.whole(event, now, out);
        }
        let (selector, kind) = (&self.selector, self.call.kind.as_ref());
        let matches = |object: &Stored| selector.matches(object, kind);
        let object = seen(kind, &event.object);
        let before = event.previous.as_ref().map(|old| seen(kind, old)).filter(|old| matches(old));
        let after = event.kind != EventKind::Deleted && matches(&object);
        match (before, after) {
            (None, false) => {}
            (None, true) => self.encoder.event(EventKind::Added, &object, now, out),
            (Some(_), true) => self.encoder.event(EventKind::Modified, &object, now, out),
            (Some(_), false) if event.kind == EventKind::Deleted => {
                self.encoder.event(EventKind::Deleted, &object, now, out);
            }
            // It left: its old state, under the version of the change.
            (Some(old), false) => {
                if let Some(left) = old.replaced_at(event.version) {
                    self.encoder.event(EventKind::Deleted, &left, now, out);
                }
            }
        }
    }
}
