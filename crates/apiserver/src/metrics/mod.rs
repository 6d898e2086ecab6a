//! What an operator can see of the server at `/metrics`, under upstream's names.

mod families;
mod labels;
mod page;
mod process;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bowline_host::Disk;
use bowline_host::metrics::Histogram;
use http::{Method, StatusCode};
use jiff::Timestamp;
use tokio::time::Instant;

pub use labels::{Labels, Seen};

use crate::limits::Refusal;

/// Upper bounds in seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Upper bounds in bytes.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Upper bounds in seconds, for writes to the store.
const STORE: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

pub struct Metrics {
    /// In seconds since 1970.
    started: i64,
    requests: Mutex<HashMap<Labels, Series>>,
    long_running: Mutex<BTreeMap<Labels, i64>>,
    read_only: AtomicI64,
    mutating: AtomicI64,
    rejected: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    rejected_connections: AtomicU64,
    writes: Mutex<BTreeMap<(&'static str, Arc<str>), Writes>>,
    /// Through which the kernel is asked about this process; nothing is asked without it.
    disk: OnceLock<Arc<dyn Disk>>,
}

/// All requests that look alike.
#[derive(Default)]
struct Series {
    codes: BTreeMap<u16, u64>,
    durations: Histogram<{ DURATIONS.len() }>,
    sizes: Histogram<{ SIZES.len() }>,
}

/// Writes of one kind to the store.
#[derive(Default)]
struct Writes {
    durations: Histogram<{ STORE.len() }>,
    errors: u64,
}

/// How a request went.
pub struct Outcome {
    pub code: StatusCode,
    pub took: Duration,
    /// Of an answer that was read, and not watched.
    pub size: Option<usize>,
}

impl Metrics {
    pub fn new(now: Timestamp) -> Self {
        Self {
            started: now.as_second(),
            requests: Mutex::default(),
            long_running: Mutex::default(),
            read_only: AtomicI64::new(0),
            mutating: AtomicI64::new(0),
            rejected: Mutex::default(),
            rejected_connections: AtomicU64::new(0),
            writes: Mutex::default(),
            disk: OnceLock::new(),
        }
    }

    /// Lets the page tell of memory, time and files of this process.
    pub fn read_process_through(&self, disk: Arc<dyn Disk>) {
        // The first one stays; they are all alike.
        let _ = self.disk.set(disk);
    }

    fn in_flight(&self, method: &Method) -> &AtomicI64 {
        if method.is_safe() { &self.read_only } else { &self.mutating }
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn enter(self: &Arc<Self>, method: &Method) -> InFlight {
        self.in_flight(method).fetch_add(1, Ordering::Relaxed);
        InFlight { metrics: self.clone(), method: method.clone() }
    }

    /// A request that was refused because there are too many. Says whether it is worth a line in the log: the first, the
    /// second, the fourth and so on are.
    pub fn refused(&self, flow_schema: &'static str, level: &'static str, why: Refusal) -> bool {
        let mut rejected = locked(&self.rejected);
        let count = rejected.entry((flow_schema, level, why.word())).or_default();
        *count += 1;
        count.is_power_of_two()
    }

    /// The same for a connection.
    pub fn refused_connection(&self) -> bool {
        (self.rejected_connections.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two()
    }

    pub fn observe(&self, labels: Labels, outcome: &Outcome) {
        let mut requests = locked(&self.requests);
        let series = requests.entry(labels).or_default();
        *series.codes.entry(outcome.code.as_u16()).or_default() += 1;
        series.durations.add(&DURATIONS, outcome.took.as_secs_f64());
        if let Some(size) = outcome.size {
            series.sizes.add(&SIZES, size as f64);
        }
    }

    /// Counts a stream as open until the guard is dropped, and then as a request.
    pub fn follow(self: &Arc<Self>, labels: Labels, code: StatusCode, started: Instant) -> LongRunning {
        *locked(&self.long_running).entry(labels.clone()).or_default() += 1;
        LongRunning { metrics: self.clone(), labels, code, started }
    }

    /// A write to the store: what it did, to which kind, and how long it took.
    pub fn wrote(&self, operation: &'static str, resource: &Arc<str>, took: Duration, ok: bool) {
        let mut writes = locked(&self.writes);
        let of = writes.entry((operation, resource.clone())).or_default();
        of.durations.add(&STORE, took.as_secs_f64());
        of.errors += u64::from(!ok);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct InFlight {
    metrics: Arc<Metrics>,
    method: Method,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight(&self.method).fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct LongRunning {
    metrics: Arc<Metrics>,
    labels: Labels,
    code: StatusCode,
    started: Instant,
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        let labels = std::mem::take(&mut self.labels);
        if let Some(open) = locked(&self.metrics.long_running).get_mut(&labels) {
            *open -= 1;
        }
        let outcome = Outcome { code: self.code, took: self.started.elapsed(), size: None };
        self.metrics.observe(labels, &outcome);
    }
}
