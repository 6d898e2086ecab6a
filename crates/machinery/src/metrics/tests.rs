//! Pages as a scraper sees them.

use super::*;

const BARE: CounterFamily<1> =
    CounterFamily { name: "forced_detaches", help: "Detached by force", labels: ["reason"] };

fn metrics() -> Metrics {
    Metrics::new(Timestamp::from_millisecond(1_794_818_767_050).expect("a time"))
}

#[test]
fn a_page_is_what_upstream_writes() {
    let metrics = metrics();
    let call = ("hostpath.csi.k8s.io", "/csi.v1.Controller/CreateVolume");
    metrics.csi_call(&families::CSI_SIDECAR_OPERATIONS, call, Code::Ok, None, Duration::from_millis(300));
    metrics.csi_call(&families::CSI_SIDECAR_OPERATIONS, call, Code::Ok, None, Duration::from_secs(700));
    metrics.leading("external-attacher-leader-x", true);
    metrics.add(&BARE, ["timeout"], 2);
    metrics.slow_renewals("x", 1);
    metrics.slow_renewals("x", 1);
    let labels = "driver_name=\"hostpath.csi.k8s.io\",grpc_status_code=\"OK\",\
                  method_name=\"/csi.v1.Controller/CreateVolume\"";
    let bounds = ["0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "25", "50", "120", "300", "600", "+Inf"];
    let counts = [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
    let buckets: String = bounds
        .iter()
        .zip(counts)
        .map(|(le, count)| format!("csi_sidecar_operations_seconds_bucket{{{labels},le=\"{le}\"}} {count}\n"))
        .collect();
    let expected = format!(
        "# HELP csi_sidecar_operations_seconds Duration of CSI calls by gRPC status code\n\
         # TYPE csi_sidecar_operations_seconds histogram\n{buckets}\
         csi_sidecar_operations_seconds_sum{{{labels}}} 700.3\n\
         csi_sidecar_operations_seconds_count{{{labels}}} 2\n\
         # HELP forced_detaches Detached by force\n# TYPE forced_detaches counter\n\
         forced_detaches{{reason=\"timeout\"}} 2\n\
         # HELP leader_election_master_status Whether this process holds the Lease: 1 for the leader, 0 for a standby\n\
         # TYPE leader_election_master_status gauge\n\
         leader_election_master_status{{name=\"external-attacher-leader-x\"}} 1\n\
         # HELP leader_election_slowpath_total Renewals of the Lease that had to read it first\n\
         # TYPE leader_election_slowpath_total counter\n\
         leader_election_slowpath_total{{name=\"x\"}} 1\n\
         # HELP process_start_time_seconds Start of the process in seconds since 1970\n\
         # TYPE process_start_time_seconds gauge\n\
         process_start_time_seconds 1.79481876705e+09\n"
    );
    assert_eq!(metrics.text(), expected);
}

#[test]
fn drivers_cannot_make_up_samples() {
    let metrics = metrics();
    let name = "x\"} 1\nforged{a=\"b\\";
    let call = (name, "/csi.v1.Identity/Probe");
    metrics.csi_call(&families::CSI_OPERATIONS, call, Code::Cancelled, Some(true), Duration::ZERO);
    let text = metrics.text();
    assert!(text.lines().all(|line| !line.starts_with("forged")), "{text}");
    let count = "csi_operations_seconds_count{driver_name=\"x\\\"} 1\\nforged{a=\\\"b\\\\\",\
                 grpc_status_code=\"Canceled\",method_name=\"/csi.v1.Identity/Probe\",migrated=\"true\"} 1\n";
    assert!(text.contains(count), "{text}");
}

#[test]
fn a_driver_without_a_name_is_unknown() {
    let metrics = metrics();
    metrics.csi_call(&families::CSI_OPERATIONS, ("", "/m"), Code::Unavailable, None, Duration::ZERO);
    assert!(metrics.text().contains("{driver_name=\"unknown-driver\",grpc_status_code=\"Unavailable\""));
}

#[test]
fn samples_of_objects_that_have_gone_go() {
    const STATS: GaugeFamily<1> = GaugeFamily { name: "stats", help: "h", labels: ["claim"] };
    let metrics = metrics();
    metrics.replace(&STATS, &[(["a"], 1.0), (["b"], 2.0)]);
    metrics.replace(&STATS, &[(["b"], 3.0)]);
    let text = metrics.text();
    assert!(text.contains("stats{claim=\"b\"} 3\n") && !text.contains("claim=\"a\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_tells_about_its_work() {
    let metrics = metrics();
    let queue = metrics.queue("claims");
    let text = metrics.text();
    for line in [
        "workqueue_adds_total{name=\"claims\"} 0",
        "workqueue_retries_total{name=\"claims\"} 0",
        "workqueue_depth{name=\"claims\"} 0",
        "workqueue_unfinished_work_seconds{name=\"claims\"} 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    queue.added(1);
    queue.added(2);
    let first = queue.taken(Duration::from_millis(20), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    // Another queue of the same name.
    let second = metrics.queue("claims").taken(Duration::from_nanos(3), 0);
    tokio::time::advance(Duration::from_secs(3)).await;
    queue.retried();
    let text = metrics.text();
    for line in [
        "workqueue_adds_total{name=\"claims\"} 2",
        "workqueue_retries_total{name=\"claims\"} 1",
        "workqueue_depth{name=\"claims\"} 0",
        "workqueue_unfinished_work_seconds{name=\"claims\"} 8",
        "workqueue_longest_running_processor_seconds{name=\"claims\"} 5",
        "workqueue_queue_duration_seconds_bucket{name=\"claims\",le=\"1e-08\"} 1",
        "workqueue_queue_duration_seconds_bucket{name=\"claims\",le=\"9.999999999999999e-06\"} 1",
        "workqueue_queue_duration_seconds_bucket{name=\"claims\",le=\"0.1\"} 2",
        "workqueue_queue_duration_seconds_count{name=\"claims\"} 2",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    drop((first, second));
    let text = metrics.text();
    assert!(text.contains("workqueue_work_duration_seconds_sum{name=\"claims\"} 8\n"), "{text}");
    assert!(text.contains("workqueue_unfinished_work_seconds{name=\"claims\"} 0\n"), "{text}");
}

#[test]
fn refreshers_may_use_the_metrics() {
    let metrics = metrics();
    metrics.on_scrape(|metrics| {
        metrics.leading("lease", false);
        metrics.queue("made during a scrape");
    });
    assert!(metrics.text().contains("leader_election_master_status{name=\"lease\"} 0\n"));
}
