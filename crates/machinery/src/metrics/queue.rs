//! The `workqueue_*` family.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Metrics, families};

/// When the work in progress began, by a number that is its own.
#[derive(Clone, Default)]
pub(super) struct Active(Arc<Mutex<Begun>>);

#[derive(Default)]
struct Begun {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

impl Active {
    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a work queue tells about itself. Clones share it.
#[derive(Clone)]
pub struct QueueMetrics {
    metrics: Metrics,
    name: Arc<str>,
    active: Active,
}

impl QueueMetrics {
    pub(super) fn new(metrics: &Metrics, name: &str) -> Self {
        let known = metrics.queues().get(name).cloned();
        let active = known.unwrap_or_else(|| first(metrics, name));
        Self { metrics: metrics.clone(), name: name.into(), active }
    }

    /// A key went into the queue, which now holds `depth`.
    pub fn added(&self, depth: usize) {
        self.metrics.add(&families::QUEUE_ADDS, [&self.name], 1);
        self.depth(depth);
    }

    /// A key left the queue for a worker. The work lasts until the answer is dropped, also by a panic.
    pub fn taken(&self, waited: Duration, depth: usize) -> Working {
        self.depth(depth);
        self.metrics.observe(&families::QUEUE_DURATION, [&self.name], waited);
        let began = Instant::now();
        let mut begun = self.active.begun();
        let number = begun.next;
        begun.next += 1;
        begun.since.insert(number, began);
        drop(begun);
        Working { queue: self.clone(), number, began }
    }

    /// A key is to be worked on again after a failure.
    pub fn retried(&self) {
        self.metrics.add(&families::QUEUE_RETRIES, [&self.name], 1);
    }

    fn depth(&self, depth: usize) {
        self.metrics.set(&families::QUEUE_DEPTH, [&self.name], depth as f64);
    }
}

/// Work on one key.
pub struct Working {
    queue: QueueMetrics,
    number: u64,
    began: Instant,
}

impl Drop for Working {
    fn drop(&mut self) {
        let QueueMetrics { metrics, name, active } = &self.queue;
        active.begun().since.remove(&self.number);
        metrics.observe(&families::WORK_DURATION, [name], self.began.elapsed());
    }
}

/// Upstream shows every series of a queue from its start, so that a rate is known from the first event on.
fn first(metrics: &Metrics, name: &str) -> Active {
    let active = Active::default();
    metrics.queues().insert(name.to_owned(), active.clone());
    metrics.add(&families::QUEUE_ADDS, [name], 0);
    metrics.add(&families::QUEUE_RETRIES, [name], 0);
    metrics.set(&families::QUEUE_DEPTH, [name], 0.0);
    let (shown, queue) = (active.clone(), name.to_owned());
    metrics.on_scrape(move |metrics| {
        let running: Vec<Duration> = shown.begun().since.values().map(Instant::elapsed).collect();
        let longest = running.iter().max().map_or(0.0, Duration::as_secs_f64);
        let sum: Duration = running.iter().sum();
        metrics.set(&families::UNFINISHED_WORK, [&queue], sum.as_secs_f64());
        metrics.set(&families::LONGEST_RUNNING, [&queue], longest);
    });
    active
}
