//! What waits, per operation of each role: for `/debug/queue`, for metrics, and for `bowline sidecars top`.
//!
//! An operation is a pool of a role's queue (attach, detach, …): each has workers of its own, so each has a backlog of its
//! own.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::metrics::{GaugeFamily, Metrics};

const LABELS: [&str; 2] = ["controller", "operation"];

const DEPTH: GaugeFamily<2> = GaugeFamily {
    name: "bowline_operation_queue_depth",
    help: "Objects that wait for a worker",
    labels: LABELS,
};
const OLDEST: GaugeFamily<2> = GaugeFamily {
    name: "bowline_operation_oldest_waiting_seconds",
    help: "How long the oldest of them waits",
    labels: LABELS,
};
const IN_FLIGHT: GaugeFamily<2> = GaugeFamily {
    name: "bowline_operation_in_flight",
    help: "Objects that are being worked on",
    labels: LABELS,
};
const FAILING: GaugeFamily<2> = GaugeFamily {
    name: "bowline_operation_failing",
    help: "Objects whose last attempt failed and that wait for the next one",
    labels: LABELS,
};
const LAST_ERROR: GaugeFamily<2> = GaugeFamily {
    name: "bowline_operation_last_error_age_seconds",
    help: "How long ago an attempt failed; absent if none has",
    labels: LABELS,
};

/// One operation of one role, as it is now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The role, under upstream's name.
    pub controller: String,
    pub operation: String,
    /// Objects that wait for a worker.
    pub depth: usize,
    /// How long the oldest of them waits.
    pub oldest_seconds: f64,
    pub in_flight: usize,
    /// How long the longest of them takes so far.
    pub longest_seconds: f64,
    /// Objects whose last attempt failed and that wait for the next one.
    pub failing: usize,
    pub last_error: Option<LastError>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    pub object: String,
    pub message: String,
    pub seconds_ago: f64,
}

type Source = Arc<dyn Fn() -> Option<Vec<Operation>> + Send + Sync>;

/// The queues of all roles of a process; clones share them.
#[derive(Clone, Default)]
pub struct Backlog {
    sources: Arc<Mutex<Vec<Source>>>,
}

impl fmt::Debug for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backlog of {} queues", self.sources().len())
    }
}

impl Backlog {
    /// Shows a queue from now on, until its source says that its role has ended.
    pub(crate) fn add(&self, source: impl Fn() -> Option<Vec<Operation>> + Send + Sync + 'static) {
        self.sources().push(Arc::new(source));
    }

    /// All operations that have something to show, sorted by role and name.
    pub fn now(&self) -> Vec<Operation> {
        let sources = self.sources().clone();
        let mut all = Vec::new();
        let mut ended = Vec::new();
        for source in sources {
            match source() {
                Some(operations) => all.extend(operations),
                None => ended.push(source),
            }
        }
        if !ended.is_empty() {
            self.sources().retain(|source| !ended.iter().any(|gone| Arc::ptr_eq(gone, source)));
        }
        all.sort_by(|a, b| (&a.controller, &a.operation).cmp(&(&b.controller, &b.operation)));
        all
    }

    /// Adds the backlog to a program's metrics.
    pub fn measure(&self, metrics: &Metrics) {
        let backlog = self.clone();
        metrics.on_scrape(move |metrics| {
            let all = backlog.now();
            let samples = |value: fn(&Operation) -> Option<f64>| -> Vec<([&str; 2], f64)> {
                all.iter()
                    .filter_map(|one| Some(([one.controller.as_str(), one.operation.as_str()], value(one)?)))
                    .collect()
            };
            metrics.replace(&DEPTH, &samples(|one| Some(one.depth as f64)));
            metrics.replace(&OLDEST, &samples(|one| Some(one.oldest_seconds)));
            metrics.replace(&IN_FLIGHT, &samples(|one| Some(one.in_flight as f64)));
            metrics.replace(&FAILING, &samples(|one| Some(one.failing as f64)));
            metrics.replace(&LAST_ERROR, &samples(|one| Some(one.last_error.as_ref()?.seconds_ago)));
        });
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
