//! How the statistics are shown: upstream's `/stats/summary` and `kubelet_volume_stats_*`.

use std::collections::BTreeMap;

use bowline_machinery::Metrics;
use bowline_machinery::metrics::families::{GaugeFamily, HistogramFamily, STORAGE_BUCKETS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::memory::{Answer, Stats};
use super::model::Amounts;

pub const COLLECTION_DURATION: HistogramFamily<1> = HistogramFamily {
    name: "kubelet_volume_metric_collection_duration_seconds",
    help: "Duration in seconds to calculate volume stats",
    labels: ["metric_source"],
    buckets: STORAGE_BUCKETS,
};

const fn gauge(name: &'static str, help: &'static str) -> GaugeFamily<2> {
    GaugeFamily { name, help, labels: ["namespace", "persistentvolumeclaim"] }
}

const CAPACITY_BYTES: GaugeFamily<2> =
    gauge("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume");
const AVAILABLE_BYTES: GaugeFamily<2> =
    gauge("kubelet_volume_stats_available_bytes", "Number of available bytes in the volume");
const USED_BYTES: GaugeFamily<2> =
    gauge("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume");
const INODES: GaugeFamily<2> = gauge("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume");
const INODES_FREE: GaugeFamily<2> =
    gauge("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume");
const INODES_USED: GaugeFamily<2> =
    gauge("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume");
const ABNORMAL: GaugeFamily<2> = gauge(
    "kubelet_volume_stats_health_status_abnormal",
    "Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 indicates volume is healthy",
);

type Read = fn(&Answer) -> Option<i64>;

const GAUGES: [(&GaugeFamily<2>, Read); 7] = [
    (&CAPACITY_BYTES, |a| a.usage.bytes.map(|b| b.total)),
    (&AVAILABLE_BYTES, |a| a.usage.bytes.map(|b| b.available)),
    (&USED_BYTES, |a| a.usage.bytes.map(|b| b.used)),
    (&INODES, |a| a.usage.inodes.map(|i| i.total)),
    (&INODES_FREE, |a| a.usage.inodes.map(|i| i.available)),
    (&INODES_USED, |a| a.usage.inodes.map(|i| i.used)),
    (&ABNORMAL, |a| a.usage.condition.as_ref().map(|c| i64::from(c.abnormal))),
];

impl Stats {
    /// One sample for each claim, however many pods have it.
    pub(super) fn sample(&self, metrics: &Metrics) {
        let answers = self.answers();
        for (family, read) in GAUGES {
            let mut samples: BTreeMap<[&str; 2], f64> = BTreeMap::new();
            for answer in &answers {
                if let (Some((namespace, claim)), Some(value)) = (&answer.volume.claim, read(answer)) {
                    samples.insert([namespace, claim], value as f64);
                }
            }
            metrics.replace(family, &samples.into_iter().collect::<Vec<_>>());
        }
    }

    /// The body of `/stats/summary`: the node, and the volumes of each pod.
    pub fn summary(&self, node_name: &str) -> Value {
        let mut pods: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
        for answer in self.answers() {
            let volume = &answer.volume;
            let reference =
                json!({"name": volume.pod_name, "namespace": volume.pod_namespace, "uid": volume.pod_uid});
            let entry = pods.entry(volume.pod_uid.clone()).or_insert((reference, Vec::new()));
            entry.1.push(shown(&answer));
        }
        let pod = |(reference, volumes)| json!({"podRef": reference, "volume": volumes});
        let pods: Vec<Value> = pods.into_values().map(pod).collect();
        json!({"node": {"nodeName": node_name}, "pods": pods})
    }
}

fn shown(answer: &Answer) -> Value {
    let mut all = Map::new();
    all.insert("time".into(), json!(Time(answer.at)));
    let mut add = |amounts: Option<Amounts>, names: [&str; 3]| {
        let Some(Amounts { available, total, used }) = amounts else { return };
        for (name, value) in names.into_iter().zip([available, total, used]) {
            all.insert(name.into(), json!(value));
        }
    };
    add(answer.usage.bytes, ["availableBytes", "capacityBytes", "usedBytes"]);
    add(answer.usage.inodes, ["inodesFree", "inodes", "inodesUsed"]);
    all.insert("name".into(), json!(answer.volume.volume));
    if let Some((namespace, name)) = &answer.volume.claim {
        all.insert("pvcRef".into(), json!({"name": name, "namespace": namespace}));
    }
    if let Some(condition) = &answer.usage.condition {
        all.insert("volumeHealthStats".into(), json!({"abnormal": condition.abnormal}));
    }
    Value::Object(all)
}
