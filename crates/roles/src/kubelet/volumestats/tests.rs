//! When drivers are asked, what their answers mean, and how they are shown.

use std::path::PathBuf;
use std::time::Duration;

use bowline_proto::csi::v1::{NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage};
use jiff::Timestamp;
use serde_json::json;

use super::act::usage;
use super::decide::decide;
use super::memory::{Answer, Stats};
use super::model::{Action, Amounts, DriverSeen, Observed, Step, Usage, Why};
use crate::kubelet::volumemanager::MountedVolume;

fn volume() -> MountedVolume {
    MountedVolume {
        pod_uid: "u".into(),
        pod_name: "p".into(),
        pod_namespace: "default".into(),
        volume: "data".into(),
        claim: Some(("default".into(), "c".into())),
        driver: "d".into(),
        handle: "h".into(),
        path: PathBuf::from("/mount"),
    }
}

fn seen(driver: DriverSeen, due: u64) -> Observed {
    let due = Duration::from_secs(due);
    let now = Duration::from_secs(100);
    Observed { key: "u/data".into(), now, mounted: Some(volume()), driver, due, shown: false }
}

#[test]
fn decisions() {
    let due = |second| Why::Due(Duration::from_secs(second));
    let table = [
        ("due", seen(DriverSeen::Able, 100), Step::Do(Action::Ask)),
        ("not yet", seen(DriverSeen::Able, 101), Step::Wait(due(101))),
        ("the driver has no statistics", seen(DriverSeen::Unable, 100), Step::Wait(Why::DriverUnable)),
        ("the driver is away", seen(DriverSeen::Missing, 100), Step::Wait(Why::DriverMissing)),
        (
            "the driver has left, and what it said is shown",
            Observed { shown: true, ..seen(DriverSeen::Missing, 101) },
            Step::Do(Action::Forget),
        ),
        ("unmounted", Observed { mounted: None, ..seen(DriverSeen::Able, 101) }, Step::Do(Action::Forget)),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
    }
}

fn amounts(unit: i32) -> VolumeUsage {
    VolumeUsage { available: 1, total: 3, used: 2, unit }
}

#[test]
fn an_answer_without_usage_counts_only_where_conditions_are_looked_at() {
    let condition = Some(VolumeCondition { abnormal: true, message: "gone".into() });
    let empty = NodeGetVolumeStatsResponse { usage: Vec::new(), volume_condition: condition.clone() };
    assert!(usage(&empty, false).is_err());
    assert!(usage(&empty, true).unwrap().condition.is_some_and(|c| c.abnormal));
    let full =
        NodeGetVolumeStatsResponse { usage: vec![amounts(1), amounts(2)], volume_condition: condition };
    let read = usage(&full, false).unwrap();
    let expected = Some(Amounts { available: 1, total: 3, used: 2 });
    assert_eq!((read.bytes, read.inodes, read.condition), (expected, expected, None));
}

#[test]
fn statistics_are_shown_in_upstreams_words() {
    let stats = Stats::default();
    let bytes = Some(Amounts { available: 1, total: 3, used: 2 });
    let usage = Usage { bytes, inodes: None, condition: None };
    let answer = Answer { at: Timestamp::UNIX_EPOCH, volume: volume(), usage };
    stats.asked("u/data", Duration::ZERO, Some(answer));
    let summary = json!({
        "node": {"nodeName": "n"},
        "pods": [{
            "podRef": {"name": "p", "namespace": "default", "uid": "u"},
            "volume": [{
                "time": "1970-01-01T00:00:00Z", "availableBytes": 1, "capacityBytes": 3, "usedBytes": 2,
                "name": "data", "pvcRef": {"name": "c", "namespace": "default"},
            }],
        }],
    });
    assert_eq!(stats.summary("n"), summary);
    let metrics = bowline_machinery::Metrics::new(Timestamp::UNIX_EPOCH);
    stats.sample(&metrics);
    let line = "kubelet_volume_stats_capacity_bytes{namespace=\"default\",persistentvolumeclaim=\"c\"} 3";
    assert!(metrics.text().contains(line), "{}", metrics.text());
    stats.forget("u/data");
    stats.sample(&metrics);
    assert!(!metrics.text().contains(line), "{}", metrics.text());
}
