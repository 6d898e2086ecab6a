//! Metrics of a program: upstream's names, labels and types, in the text format that upstream serves.
//!
//! A family is a constant ([`families`] holds the shared ones; a role keeps its own beside its code) and is registered
//! with its first sample, so a program shows the families of the roles that run in it.

pub mod families;
mod queue;
mod text;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::keys::CSI_PLUGIN;
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

pub use families::{CounterFamily, GaugeFamily, HistogramFamily};
pub use queue::{QueueMetrics, Working};

/// Names and values, sorted by name as upstream's are; values are escaped.
type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Refresher = Arc<dyn Fn(&Metrics) + Send + Sync>;
type Histograms = Family<Labels, Histogram, Buckets>;

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// The metrics of one program; clones share them.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    refreshers: Mutex<Vec<Refresher>>,
    queues: Mutex<BTreeMap<String, queue::Active>>,
}

#[derive(Default)]
struct State {
    registry: Registry,
    counters: BTreeMap<&'static str, Family<Labels, Counter>>,
    gauges: BTreeMap<&'static str, Gauges>,
    histograms: BTreeMap<&'static str, Histograms>,
    /// Counters whose name does not end in `_total`.
    bare: BTreeSet<&'static str>,
}

impl Metrics {
    /// `started` is when the process did.
    pub fn new(started: Timestamp) -> Self {
        let metrics = Self { inner: Arc::default() };
        metrics.set(&families::PROCESS_START_TIME, [], started.as_millisecond() as f64 / 1e3);
        metrics
    }

    pub fn add<const N: usize>(&self, family: &CounterFamily<N>, values: [&str; N], by: u64) {
        self.state().counter(family).get_or_create(&labels(family.labels, values)).inc_by(by);
    }

    pub fn set<const N: usize>(&self, family: &GaugeFamily<N>, values: [&str; N], value: f64) {
        self.state().gauge(family).get_or_create(&labels(family.labels, values)).set(value);
    }

    /// Replaces all samples of a family: those of objects that have gone go with them.
    pub fn replace<const N: usize>(&self, family: &GaugeFamily<N>, samples: &[([&str; N], f64)]) {
        let mut state = self.state();
        let gauges = state.gauge(family);
        gauges.clear();
        for (values, value) in samples {
            gauges.get_or_create(&labels(family.labels, *values)).set(*value);
        }
    }

    pub fn observe<const N: usize>(&self, family: &HistogramFamily<N>, values: [&str; N], took: Duration) {
        let labels = labels(family.labels, values);
        self.state().histogram(family).get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Samples one CSI call. `method` is the full path; `migrated` is only said for drivers with an in-tree predecessor.
    pub fn csi_call(
        &self,
        family: &HistogramFamily<4>,
        (driver, method): (&str, &str),
        code: Code,
        migrated: Option<bool>,
        took: Duration,
    ) {
        let driver = if driver.is_empty() { "unknown-driver" } else { driver };
        let migrated = migrated.map_or("", |migrated| if migrated { "true" } else { "false" });
        self.observe(family, [driver, method, grpc_code(code), migrated], took);
    }

    /// Samples one operation on a volume of a CSI driver, as the kubelet and the attach/detach controller of upstream do.
    pub fn storage_operation(&self, driver: &str, operation: &str, succeeded: bool, took: Duration) {
        let plugin = format!("{CSI_PLUGIN}:{driver}");
        let status = if succeeded { "success" } else { "fail-unknown" };
        self.observe(&families::STORAGE_OPERATION_DURATION, [&plugin, operation, status, "false"], took);
    }

    /// Runs before each scrape, to set gauges that are only worth computing then.
    pub fn on_scrape(&self, refresh: impl Fn(&Self) + Send + Sync + 'static) {
        self.refreshers().push(Arc::new(refresh));
    }

    /// The metrics of a work queue. Queues of one name share their samples.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics::new(self, name)
    }

    /// Says whether this process leads; `lease` is the name of the Lease.
    pub fn leading(&self, lease: &str, leads: bool) {
        self.set(&families::LEADER_ELECTION_MASTER_STATUS, [lease], f64::from(u8::from(leads)));
    }

    /// Says how many renewals so far needed more than the one write of the usual path.
    pub fn slow_renewals(&self, lease: &str, so_far: u64) {
        let family = &families::LEADER_ELECTION_SLOWPATH;
        let mut state = self.state();
        let counter = state.counter(family).get_or_create_owned(&labels(family.labels, [lease]));
        counter.inc_by(so_far.saturating_sub(counter.get()));
    }

    /// All samples in the text format, version 0.0.4.
    pub fn text(&self) -> String {
        // A copy: one that makes a queue adds a refresher of its own.
        let refreshers = self.refreshers().clone();
        for refresh in refreshers {
            refresh(self);
        }
        let state = self.state();
        let mut encoded = String::new();
        match encode(&mut encoded, &state.registry) {
            Ok(()) => text::classic(&encoded, &state.bare),
            // Writing to a string does not fail; if it ever does, half a page would be worse than none.
            Err(_) => String::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refreshers(&self) -> MutexGuard<'_, Vec<Refresher>> {
        self.inner.refreshers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, queue::Active>> {
        self.inner.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn counter<const N: usize>(&mut self, family: &CounterFamily<N>) -> &Family<Labels, Counter> {
        let Self { registry, counters, bare, .. } = self;
        counters.entry(family.name).or_insert_with(|| {
            let counter = Family::default();
            // The encoder adds `_total` to every counter.
            let name = family.name.strip_suffix("_total").unwrap_or_else(|| {
                bare.insert(family.name);
                family.name
            });
            registry.register(name, family.help, counter.clone());
            counter
        })
    }

    fn gauge<const N: usize>(&mut self, family: &GaugeFamily<N>) -> &Gauges {
        let Self { registry, gauges, .. } = self;
        gauges.entry(family.name).or_insert_with(|| {
            let gauge = Family::default();
            registry.register(family.name, family.help, Gauges::clone(&gauge));
            gauge
        })
    }

    fn histogram<const N: usize>(&mut self, family: &HistogramFamily<N>) -> &Histograms {
        let Self { registry, histograms, .. } = self;
        histograms.entry(family.name).or_insert_with(|| {
            let histogram = Family::new_with_constructor(Buckets(family.buckets));
            registry.register(family.name, family.help, Histograms::clone(&histogram));
            histogram
        })
    }
}

/// An empty value is no label to Prometheus, so it is left out. Values may come from a driver or a user, and the encoder
/// writes them as they are: without escapes, a quote in one could make up samples.
fn labels<const N: usize>(names: [&'static str; N], values: [&str; N]) -> Labels {
    let given = names.into_iter().zip(values).filter(|(_, value)| !value.is_empty());
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut labels: Labels = given.map(|(name, value)| (name, escaped(value))).collect();
    labels.sort();
    labels
}

/// Go's spelling of a gRPC code.
pub fn grpc_code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
