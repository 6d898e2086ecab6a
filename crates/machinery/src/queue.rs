//! A work queue: keys are deduplicated, one key is never worked on twice at once, failures back off per key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What to do with a key after working on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing until something changes.
    Done,
    /// Try again after the key's back-off.
    Retry,
    /// Look again after this long, even if nothing changes.
    After(Duration),
}

/// Delays between attempts at one key: doubled from `start` up to `max`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub start: Duration,
    pub max: Duration,
}

impl Backoff {
    /// Upstream's for volume operations.
    pub const VOLUME: Self = Self { start: Duration::from_millis(500), max: Duration::from_secs(122) };
    /// Upstream's for controllers: quick at first.
    pub const CONTROLLER: Self = Self { start: Duration::from_millis(5), max: Duration::from_secs(1000) };
    /// Upstream's for the sidecars (`--retry-interval-start`, `--retry-interval-max`).
    pub const SIDECAR: Self = Self { start: Duration::from_secs(1), max: Duration::from_secs(300) };

    fn delay(&self, failures: u32) -> Duration {
        self.start.saturating_mul(1u32.checked_shl(failures.min(30)).unwrap_or(u32::MAX)).min(self.max)
    }
}

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
    backoff: Backoff,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Keys in `ready`.
    waiting: BTreeSet<K>,
    active: BTreeSet<K>,
    /// Keys added while active: once more afterwards.
    dirty: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
    /// When keys are looked at again although nothing changes.
    looks: BTreeMap<K, Instant>,
}

impl<K: Ord + Clone + Send + 'static> Queue<K> {
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            active: BTreeSet::new(),
            dirty: BTreeSet::new(),
            failures: BTreeMap::new(),
            looks: BTreeMap::new(),
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), wake: Notify::new(), backoff }) }
    }

    pub fn add(&self, key: K) {
        let mut state = self.state();
        if state.active.contains(&key) {
            state.dirty.insert(key);
        } else if state.waiting.insert(key.clone()) {
            state.ready.push_back(key);
            drop(state);
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

    /// Keys that wait or are being worked on.
    pub fn depth(&self) -> usize {
        let state = self.state();
        state.ready.len() + state.active.len()
    }

    /// Consecutive failures of a key.
    pub fn failures(&self, key: &K) -> u32 {
        self.state().failures.get(key).copied().unwrap_or(0)
    }

    /// Works on keys until stopped, then waits for those in flight: an effect is never cut in half.
    pub async fn run<F, Fut>(&self, workers: usize, stop: CancellationToken, work: F)
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Verdict> + Send + 'static,
    {
        let work = Arc::new(work);
        let slots = Arc::new(Semaphore::new(workers));
        let tasks = TaskTracker::new();
        loop {
            let slot = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                slot = slots.clone().acquire_owned() => slot,
            };
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                key = self.next() => key,
            };
            let (queue, work) = (self.clone(), work.clone());
            tasks.spawn(async move {
                let verdict = work(key.clone()).await;
                queue.finish(key, verdict);
                drop(slot);
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn next(&self) -> K {
        loop {
            if let Some(key) = self.take() {
                return key;
            }
            self.inner.wake.notified().await;
        }
    }

    fn take(&self) -> Option<K> {
        let mut state = self.state();
        let key = state.ready.pop_front()?;
        state.waiting.remove(&key);
        state.active.insert(key.clone());
        Some(key)
    }

    fn finish(&self, key: K, verdict: Verdict) {
        let mut state = self.state();
        state.active.remove(&key);
        let again = state.dirty.remove(&key);
        let delay = match verdict {
            Verdict::Done => {
                state.failures.remove(&key);
                None
            }
            Verdict::After(delay) => {
                state.failures.remove(&key);
                Some(delay)
            }
            Verdict::Retry => {
                let failures = state.failures.entry(key.clone()).or_default();
                let delay = self.inner.backoff.delay(*failures);
                *failures += 1;
                Some(delay)
            }
        };
        drop(state);
        if again {
            self.add(key);
        } else if let Some(delay) = delay {
            self.look_again(key, delay);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn one_key_is_never_worked_on_twice_at_once() {
        let queue = Queue::new(Backoff::VOLUME);
        let (running, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stop = CancellationToken::new();
        let (running_in, runs_in) = (running.clone(), runs.clone());
        let worker = queue.clone();
        let ended = stop.clone();
        let task = tokio::spawn(async move {
            let work = move |_: &str| {
                let (running, runs) = (running_in.clone(), runs_in.clone());
                async move {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    runs.fetch_add(1, Ordering::SeqCst);
                    Verdict::Done
                }
            };
            worker.run(4, ended, work).await;
        });
        for _ in 0..3 {
            queue.add("a");
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.depth(), 1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 2, "once, and once more for what came meanwhile");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_success_forgets() {
        let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(3) });
        let stop = CancellationToken::new();
        let times = Arc::new(Mutex::new(Vec::new()));
        let (log, ended, worker) = (times.clone(), stop.clone(), queue.clone());
        let begin = Instant::now();
        let task = tokio::spawn(async move {
            let work = move |_: u8| {
                let log = log.clone();
                async move {
                    let mut log = log.lock().unwrap();
                    log.push(begin.elapsed().as_secs());
                    if log.len() < 5 { Verdict::Retry } else { Verdict::Done }
                }
            };
            worker.run(1, ended, work).await;
        });
        queue.add(1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*times.lock().unwrap(), [0, 1, 3, 6, 9]);
        assert_eq!(queue.failures(&1), 0);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waking_a_key_that_fails_does_not_make_it_fail_more_often_for_ever() {
        let queue = Queue::new(Backoff { start: Duration::from_secs(1), max: Duration::from_secs(100) });
        let stop = CancellationToken::new();
        let passes = Arc::new(AtomicUsize::new(0));
        let (count, ended, worker) = (passes.clone(), stop.clone(), queue.clone());
        let task = tokio::spawn(async move {
            let work = move |_: u8| {
                count.fetch_add(1, Ordering::SeqCst);
                std::future::ready(Verdict::Retry)
            };
            worker.run(1, ended, work).await;
        });
        for _ in 0..6 {
            queue.add(1);
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        let woken = passes.swap(0, Ordering::SeqCst);
        assert!(woken >= 6, "each wake-up is a pass: {woken}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let alone = passes.load(Ordering::SeqCst);
        assert!((36..=37).contains(&alone), "one every hundred seconds: {alone}");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_plans_the_earlier_one_counts() {
        let queue = Queue::new(Backoff::VOLUME);
        queue.look_again(1, Duration::from_secs(10));
        queue.look_again(1, Duration::from_secs(5));
        queue.look_again(1, Duration::from_secs(20));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(queue.take(), Some(1));
        queue.finish(1, Verdict::Done);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(queue.take(), None);
    }
}
