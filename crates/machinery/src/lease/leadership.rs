//! Whether this process leads right now: a look at a clock, asked before each effect.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_host::Uptime;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::effect::EffectError;

/// Upstream's patience with a leader that does not renew, beyond the lease itself.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);

/// When a request was sent, by the clock that timers follow and by the one that also counts while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    at: Instant,
    uptime: Duration,
}

impl Sent {
    pub(super) fn now(uptime: &dyn Uptime) -> Self {
        Self { at: Instant::now(), uptime: uptime.uptime() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Waiting,
    /// Since a request at this time made or renewed the lease, and not beyond the deadline.
    Leading {
        renewed: Instant,
        until: Instant,
        /// The same end by uptime: a machine that slept past it wakes up without the lease.
        until_uptime: Duration,
    },
    /// For good: a candidate that lost does not lead again under the same handle.
    Over,
}

/// A handle on one candidacy; clones share it.
#[derive(Clone)]
pub struct Leadership {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    lease: Duration,
    term: Mutex<Term>,
    /// Wakes in the order of waiting, so that a simulation repeats.
    changed: Notify,
    slow_paths: AtomicU64,
    uptime: Arc<dyn Uptime>,
}

impl Leadership {
    pub(super) fn new(name: String, lease: Duration, uptime: Arc<dyn Uptime>) -> Self {
        let (term, changed, slow_paths) = (Mutex::new(Term::Waiting), Notify::new(), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { name, lease, term, changed, slow_paths, uptime }) }
    }

    /// The lease, for the label `name` of metrics.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether the lease is held: it was renewed within the renew deadline. True by the clock alone, so it ends even
    /// when the task that renews is stuck. For the gauge `leader_election_master_status`, too.
    pub fn held(&self) -> bool {
        let term = *self.term();
        self.counts(&term)
    }

    /// Whether the candidacy is over: it was lost, ran out or was handed over, and never leads again.
    pub fn ended(&self) -> bool {
        let term = *self.term();
        matches!(term, Term::Over) || (matches!(term, Term::Leading { .. }) && !self.counts(&term))
    }

    fn counts(&self, term: &Term) -> bool {
        matches!(*term, Term::Leading { until, until_uptime, .. }
            if Instant::now() < until && self.inner.uptime.uptime() < until_uptime)
    }

    pub(crate) fn check(&self) -> Result<(), EffectError> {
        if self.held() { Ok(()) } else { Err(EffectError::without_lease(&self.inner.name)) }
    }

    /// For the counter `leader_election_slowpath_total`.
    pub fn slow_paths(&self) -> u64 {
        self.inner.slow_paths.load(Ordering::Relaxed)
    }

    /// For `/healthz/leader-election`: candidates are healthy, and leaders that renew.
    pub fn healthy(&self) -> bool {
        match *self.term() {
            Term::Leading { renewed, .. } => renewed.elapsed() <= self.inner.lease + UNHEALTHY_AFTER,
            Term::Waiting | Term::Over => true,
        }
    }

    /// Waits for the lease; false when the candidacy ended without it.
    pub async fn acquired(&self) -> bool {
        loop {
            let mut woken = std::pin::pin!(self.inner.changed.notified());
            woken.as_mut().enable();
            let term = *self.term();
            match term {
                Term::Waiting => woken.await,
                Term::Leading { .. } => return true,
                Term::Over => return false,
            }
        }
    }

    /// Waits until the lease is not held any more: taken by another candidate, not renewed in time, or handed over.
    pub async fn lost(&self) {
        loop {
            let mut woken = std::pin::pin!(self.inner.changed.notified());
            woken.as_mut().enable();
            let term = *self.term();
            match term {
                Term::Waiting => woken.await,
                Term::Leading { until, .. } if self.counts(&term) => {
                    let _ = tokio::time::timeout_at(until, woken).await;
                }
                Term::Leading { .. } | Term::Over => return,
            }
        }
    }

    /// Leads from when the request was sent, for `lasts`. False when it was lost before: the renewal came too late.
    pub(super) fn extend(&self, sent: Sent, lasts: Duration) -> bool {
        let next =
            Term::Leading { renewed: sent.at, until: sent.at + lasts, until_uptime: sent.uptime + lasts };
        let mut term = self.term();
        let lapsed = match &*term {
            Term::Waiting => false,
            leading @ Term::Leading { .. } => !self.counts(leading),
            Term::Over => true,
        };
        *term = if lapsed || !self.counts(&next) { Term::Over } else { next };
        let held = *term != Term::Over;
        drop(term);
        self.inner.changed.notify_waiters();
        held
    }

    /// When the lease ends unless it is renewed.
    pub(super) fn until(&self) -> Option<Instant> {
        if let Term::Leading { until, .. } = *self.term() { Some(until) } else { None }
    }

    pub(super) fn end(&self) {
        *self.term() = Term::Over;
        self.inner.changed.notify_waiters();
    }

    pub(super) fn slow_path(&self) {
        self.inner.slow_paths.fetch_add(1, Ordering::Relaxed);
    }

    fn term(&self) -> MutexGuard<'_, Term> {
        self.inner.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
