//! How long snapshots take from the request to the result, as upstream measures it, and creates without an answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::{ObjectKey, VolumeSnapshotContent};
use bowline_machinery::Metrics;
use bowline_machinery::metrics::{GaugeFamily, HistogramFamily};

const OPERATION_TOTAL: HistogramFamily<4> = HistogramFamily {
    name: "snapshot_controller_operation_total_seconds",
    help: "Total number of seconds spent by the controller on an operation",
    labels: ["driver_name", "operation_name", "snapshot_type", "operation_status"],
    buckets: &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0],
};

const IN_FLIGHT: GaugeFamily<0> = GaugeFamily {
    name: "snapshot_controller_operations_in_flight",
    help: "Total number of operations in flight",
    labels: [],
};

pub(super) const CREATE: &str = "CreateSnapshot";
pub(super) const CREATE_AND_READY: &str = "CreateSnapshotAndReady";
pub(super) const DELETE: &str = "DeleteSnapshot";

/// What this process remembers. Losing it costs samples of metrics, and the certainty about a create that was cut off.
#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    operations: BTreeMap<(ObjectKey, &'static str), Operation>,
    unanswered: BTreeMap<String, Arc<VolumeSnapshotContent>>,
}

struct Operation {
    driver: String,
    kind: &'static str,
    since: Duration,
}

impl Memory {
    /// The content of a create whose answer was lost, by the UID of its snapshot.
    pub(super) fn unanswered(&self, uid: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.lock().unanswered.get(uid).cloned()
    }

    pub(super) fn lost_answer(&self, uid: &str, content: VolumeSnapshotContent) {
        self.lock().unanswered.insert(uid.to_owned(), Arc::new(content));
    }

    pub(super) fn answered(&self, uid: &str) {
        self.lock().unanswered.remove(uid);
    }

    /// An operation begins, unless it has begun before.
    pub(super) fn begin(
        &self,
        metrics: &Metrics,
        key: &ObjectKey,
        name: &'static str,
        (driver, kind): (String, &'static str),
        now: Duration,
    ) {
        let mut state = self.lock();
        state.operations.entry((key.clone(), name)).or_insert(Operation { driver, kind, since: now });
        metrics.set(&IN_FLIGHT, [], state.operations.len() as f64);
    }

    /// It has succeeded. With a deletion, what was still being created is cancelled.
    pub(super) fn succeeded(&self, metrics: &Metrics, key: &ObjectKey, name: &'static str, now: Duration) {
        let mut state = self.lock();
        let mut end = |name: &'static str, status: &str| {
            if let Some(Operation { driver, kind, since }) = state.operations.remove(&(key.clone(), name)) {
                let driver = if driver.is_empty() { "unknown" } else { &driver };
                metrics.observe(&OPERATION_TOTAL, [driver, name, kind, status], now.saturating_sub(since));
            }
        };
        end(name, "success");
        if name == DELETE {
            [CREATE, CREATE_AND_READY].into_iter().for_each(|name| end(name, "cancel"));
        }
        metrics.set(&IN_FLIGHT, [], state.operations.len() as f64);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
