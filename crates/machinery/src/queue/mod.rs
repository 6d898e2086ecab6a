//! A work queue: keys are deduplicated, one key is never worked on twice at once, failures back off per key, and the
//! keys of one pool never wait for those of another.

mod backoff;
mod state;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backlog::Operation;
use crate::metrics::{QueueMetrics, Working};
pub use backoff::Backoff;
use state::{Added, State};

/// Passes in a row that may end with steps left before the key counts as failing.
const UNSETTLED_MAX: u32 = 32;

/// What to do with a key after working on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing until something changes.
    Done,
    /// There is more to do: once more, after the keys that wait already.
    Again,
    /// The decision was made on an old copy: at once if the key has changed meanwhile, else like `Retry`.
    Stale,
    /// Try again after the key's back-off.
    Retry,
    /// Look again after this long, even if nothing changes.
    After(Duration),
}

/// Workers that a set of keys shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub workers: usize,
}

impl Pool {
    pub fn new(name: impl Into<String>, workers: usize) -> Self {
        Self { name: name.into(), workers: workers.max(1) }
    }
}

type PoolOf<K> = Box<dyn Fn(&K) -> Pool + Send + Sync>;

/// The queue of one role; clones share it.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    backoff: OnceLock<Backoff>,
    /// Set when work begins.
    pool_of: OnceLock<PoolOf<K>>,
    metrics: OnceLock<QueueMetrics>,
}

impl<K: Ord + Clone + Debug + Send + Sync + 'static> Queue<K> {
    pub fn new(backoff: Backoff) -> Self {
        let queue = Self::without_backoff();
        queue.set_backoff(backoff);
        queue
    }

    /// A queue whose back-off is set before work begins.
    pub(crate) fn without_backoff() -> Self {
        let inner = Inner {
            state: Mutex::new(State::new()),
            wake: Notify::new(),
            backoff: OnceLock::new(),
            pool_of: OnceLock::new(),
            metrics: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The first back-off that is set counts.
    pub(crate) fn set_backoff(&self, backoff: Backoff) {
        let _ = self.inner.backoff.set(backoff);
    }

    /// Says from now on what it does.
    pub(crate) fn measure(&self, metrics: QueueMetrics) {
        let _ = self.inner.metrics.set(metrics);
    }

    pub fn add(&self, key: K) {
        let pool = self.inner.pool_of.get().map(|pool_of| pool_of(&key));
        let (added, depth) = {
            let mut state = self.state();
            (state.add(key, pool), state.depth())
        };
        if let (Some(metrics), Added::New | Added::Later) = (self.inner.metrics.get(), added) {
            metrics.added(depth);
        }
        if matches!(added, Added::New | Added::Moved) {
            self.inner.wake.notify_one();
        }
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            queue.add(key);
        });
    }

    /// Tries every key that failed once more: what it failed for may be over. Its failures still count.
    pub(crate) fn retry_failed(&self) {
        self.failing().into_iter().for_each(|key| self.add(key));
    }

    /// Keys that wait or are being worked on.
    pub fn depth(&self) -> usize {
        self.state().len()
    }

    /// Notes why the work on a key failed, while it is being worked on.
    pub(crate) fn note_failure(&self, key: &K, object: String, message: String) {
        self.state().failed(key, object, message);
    }

    /// The backlog of each pool, under the role's name.
    pub(crate) fn operations(&self, role: &str) -> Vec<Operation> {
        let pool_of = |key: &K| self.inner.pool_of.get().map(|pool_of| pool_of(key).name).unwrap_or_default();
        // Pools are asked for without the lock: a role may look into its caches for them.
        let failing: BTreeMap<K, String> =
            self.failing().into_iter().map(|key| (key.clone(), pool_of(&key))).collect();
        let named = |key: &K| failing.get(key).cloned().unwrap_or_default();
        let operations = self.state().operations(named);
        operations.into_iter().map(|one| Operation { controller: role.to_owned(), ..one }).collect()
    }

    fn failing(&self) -> Vec<K> {
        self.state().failures.keys().cloned().collect()
    }

    /// Consecutive failures of a key.
    pub fn failures(&self, key: &K) -> u32 {
        self.state().failures.get(key).copied().unwrap_or(0)
    }

    /// Works on keys, at most `workers` at once, until stopped, then waits for those in flight: an effect is never cut in
    /// half.
    pub async fn run<F, Fut>(&self, workers: usize, stop: CancellationToken, work: F)
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Verdict> + Send + 'static,
    {
        self.run_pools(move |_| Pool::new("", workers), stop, work).await;
    }

    /// Like `run`, with as many workers for each pool as it says.
    pub async fn run_pools<P, F, Fut>(&self, pool_of: P, stop: CancellationToken, work: F)
    where
        P: Fn(&K) -> Pool + Send + Sync + 'static,
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Verdict> + Send + 'static,
    {
        let _ = self.inner.pool_of.set(Box::new(pool_of));
        if let Some(pool_of) = self.inner.pool_of.get() {
            self.state().sort(pool_of);
        }
        let work = Arc::new(work);
        let tasks = TaskTracker::new();
        loop {
            let (key, measured) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = self.next() => next,
            };
            let (queue, work) = (self.clone(), work.clone());
            tasks.spawn(async move {
                let measured = measured;
                // A panic concerns this key only. `work` is asked inside, since it may panic before it returns a future.
                let pass = AssertUnwindSafe(async { work(key.clone()).await }).catch_unwind().await;
                let verdict = pass.unwrap_or_else(|panic| panicked(&key, &*panic));
                drop(measured);
                queue.finish(key, verdict);
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn next(&self) -> (K, Option<Working>) {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.inner.wake.notified().await;
        }
    }

    fn take(&self) -> Option<(K, Option<Working>)> {
        let mut state = self.state();
        let (key, since) = state.take()?;
        let depth = state.depth();
        drop(state);
        Some((key, self.inner.metrics.get().map(|metrics| metrics.taken(since.elapsed(), depth))))
    }

    fn finish(&self, key: K, verdict: Verdict) {
        let mut state = self.state();
        let added = state.finish(&key);
        let changed = added.is_some();
        let verdict = match verdict {
            Verdict::Again => {
                let passes = state.unsettled.entry(key.clone()).or_default();
                *passes += 1;
                if *passes < UNSETTLED_MAX {
                    drop(state);
                    return self.go_on(key, Instant::now());
                }
                tracing::error!(?key, passes = *passes, "does not settle, will try again");
                Verdict::Retry
            }
            other => {
                state.unsettled.remove(&key);
                other
            }
        };
        let backoff = self.inner.backoff.get().copied().unwrap_or(Backoff::CONTROLLER);
        let (again, delay) = match verdict {
            Verdict::Stale if changed => (true, None),
            Verdict::Retry | Verdict::Stale => {
                let failures = state.failures.entry(key.clone()).or_default();
                let delay = backoff.delay(*failures, changed);
                *failures += 1;
                if let Some(metrics) = self.inner.metrics.get() {
                    metrics.retried();
                }
                (false, Some(delay))
            }
            Verdict::After(delay) => (changed, Some(delay)),
            Verdict::Done | Verdict::Again => (changed, None),
        };
        if !matches!(verdict, Verdict::Retry | Verdict::Stale) {
            state.failures.remove(&key);
        }
        drop(state);
        // A worker is free.
        self.inner.wake.notify_one();
        if again {
            self.go_on(key, added.unwrap_or_else(Instant::now));
        } else if let Some(delay) = delay {
            self.look_again(key, delay);
        }
    }

    /// Works on a key once more. It was counted when it was added.
    fn go_on(&self, key: K, since: Instant) {
        let pool = self.inner.pool_of.get().map(|pool_of| pool_of(&key));
        self.state().wait(key, pool, since);
        self.inner.wake.notify_one();
    }

    /// Looks at a key after `delay`, or earlier if that was planned already. There is one plan per key: if each failure of a
    /// key that is woken again and again made one of its own, they would never end.
    fn look_again(&self, key: K, delay: Duration) {
        // A time that no clock reaches is never.
        let Some(at) = Instant::now().checked_add(delay) else { return };
        let mut state = self.state();
        if state.looks.get(&key).is_some_and(|planned| *planned <= at) {
            return;
        }
        state.looks.insert(key.clone(), at);
        drop(state);
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if queue.is_due(&key, at) {
                queue.add(key);
            }
        });
    }

    /// Whether this is the plan that counts; it is then carried out.
    fn is_due(&self, key: &K, at: Instant) -> bool {
        let mut state = self.state();
        let due = state.looks.get(key) == Some(&at);
        if due {
            state.looks.remove(key);
        }
        due
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A panic is a bug in the work on one key: it is reported, and the key is tried again like after any failure.
fn panicked<K: Debug>(key: &K, panic: &(dyn Any + Send)) -> Verdict {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(?key, panic = text.unwrap_or("without a message"), "panicked, will try again");
    Verdict::Retry
}
