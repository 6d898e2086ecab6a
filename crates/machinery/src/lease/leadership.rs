//! Whether this process leads right now: a look at a clock, asked before each effect.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::effect::EffectError;

/// Upstream's patience with a leader that does not renew, beyond the lease itself.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Waiting,
    /// Since a request at this time made or renewed the lease, and not beyond the deadline.
    Leading {
        renewed: Instant,
        until: Instant,
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
}

impl Leadership {
    pub(super) fn new(name: String, lease: Duration) -> Self {
        let term = Mutex::new(Term::Waiting);
        let inner = Inner { name, lease, term, changed: Notify::new(), slow_paths: AtomicU64::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// The lease, for the label `name` of metrics.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether the lease is held: it was renewed within the renew deadline. True by the clock alone, so it ends even
    /// when the task that renews is stuck. For the gauge `leader_election_master_status`, too.
    pub fn held(&self) -> bool {
        matches!(*self.term(), Term::Leading { until, .. } if Instant::now() < until)
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
                Term::Leading { until, .. } if Instant::now() < until => {
                    let _ = tokio::time::timeout_at(until, woken).await;
                }
                Term::Leading { .. } | Term::Over => return,
            }
        }
    }

    /// Leads from `renewed` on, for `lasts`. False when it was lost before: the renewal came too late.
    pub(super) fn extend(&self, renewed: Instant, lasts: Duration) -> bool {
        let now = Instant::now();
        let until = renewed + lasts;
        let mut term = self.term();
        let lapsed = match *term {
            Term::Waiting => false,
            Term::Leading { until, .. } => now >= until,
            Term::Over => true,
        };
        *term = if lapsed || now >= until { Term::Over } else { Term::Leading { renewed, until } };
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
