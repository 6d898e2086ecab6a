//! Families of samples, and those that several programs share.

#[derive(Debug, Clone, Copy)]
pub struct CounterFamily<const N: usize> {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: [&'static str; N],
}

#[derive(Debug, Clone, Copy)]
pub struct GaugeFamily<const N: usize> {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: [&'static str; N],
}

#[derive(Debug, Clone, Copy)]
pub struct HistogramFamily<const N: usize> {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: [&'static str; N],
    pub buckets: &'static [f64],
}

/// Upper bounds of all histograms of storage operations, in seconds.
pub const STORAGE_BUCKETS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// Powers of ten from ten nanoseconds to ten seconds. Two of them carry the rounding error that upstream's have, because
/// a bound is part of a sample's name.
pub const QUEUE_BUCKETS: &[f64] =
    &[1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 0.001, 0.01, 0.1, 1.0, 10.0];

const CSI_LABELS: [&str; 4] = ["driver_name", "method_name", "grpc_status_code", "migrated"];

/// CSI calls of a sidecar.
pub const CSI_SIDECAR_OPERATIONS: HistogramFamily<4> = HistogramFamily {
    name: "csi_sidecar_operations_seconds",
    help: "Duration of CSI calls by gRPC status code",
    labels: CSI_LABELS,
    buckets: STORAGE_BUCKETS,
};

/// CSI calls of the kubelet.
pub const CSI_OPERATIONS: HistogramFamily<4> = HistogramFamily {
    name: "csi_operations_seconds",
    help: "Duration of CSI calls by gRPC status code",
    labels: CSI_LABELS,
    buckets: STORAGE_BUCKETS,
};

/// Operations of the kubelet and of the attach/detach controller; status is `success` or `fail-unknown`.
pub const STORAGE_OPERATION_DURATION: HistogramFamily<4> = HistogramFamily {
    name: "storage_operation_duration_seconds",
    help: "Duration of storage operations",
    labels: ["volume_plugin", "operation_name", "status", "migrated"],
    buckets: STORAGE_BUCKETS,
};

/// From the request to the result, such as `provision`, `delete` and `overall_volume_mount`.
pub const VOLUME_OPERATION_TOTAL: HistogramFamily<2> = HistogramFamily {
    name: "volume_operation_total_seconds",
    help: "Duration of storage operations from end to end",
    labels: ["plugin_name", "operation_name"],
    buckets: STORAGE_BUCKETS,
};

pub const VOLUME_OPERATION_ERRORS: CounterFamily<2> = CounterFamily {
    name: "volume_operation_errors_total",
    help: "Storage operations that failed",
    labels: ["plugin_name", "operation_name"],
};

pub const PROCESS_START_TIME: GaugeFamily<0> = GaugeFamily {
    name: "process_start_time_seconds",
    help: "Start of the process in seconds since 1970",
    labels: [],
};

pub const LEADER_ELECTION_MASTER_STATUS: GaugeFamily<1> = GaugeFamily {
    name: "leader_election_master_status",
    help: "Whether this process holds the Lease: 1 for the leader, 0 for a standby",
    labels: ["name"],
};

pub const LEADER_ELECTION_SLOWPATH: CounterFamily<1> = CounterFamily {
    name: "leader_election_slowpath_total",
    help: "Renewals of the Lease that had to read it first",
    labels: ["name"],
};

pub const QUEUE_DEPTH: GaugeFamily<1> =
    GaugeFamily { name: "workqueue_depth", help: "Keys that wait in the queue", labels: ["name"] };

pub const QUEUE_ADDS: CounterFamily<1> =
    CounterFamily { name: "workqueue_adds_total", help: "Keys added to the queue", labels: ["name"] };

pub const QUEUE_RETRIES: CounterFamily<1> = CounterFamily {
    name: "workqueue_retries_total",
    help: "Keys added again after a failure",
    labels: ["name"],
};

pub const QUEUE_DURATION: HistogramFamily<1> = HistogramFamily {
    name: "workqueue_queue_duration_seconds",
    help: "Time that keys waited in the queue",
    labels: ["name"],
    buckets: QUEUE_BUCKETS,
};

pub const WORK_DURATION: HistogramFamily<1> = HistogramFamily {
    name: "workqueue_work_duration_seconds",
    help: "Time that the work on a key took",
    labels: ["name"],
    buckets: QUEUE_BUCKETS,
};

pub const UNFINISHED_WORK: GaugeFamily<1> = GaugeFamily {
    name: "workqueue_unfinished_work_seconds",
    help: "Sum of the time that work in progress has taken so far",
    labels: ["name"],
};

pub const LONGEST_RUNNING: GaugeFamily<1> = GaugeFamily {
    name: "workqueue_longest_running_processor_seconds",
    help: "Longest time that work in progress has taken so far",
    labels: ["name"],
};
