//! livenessprobe and csi-external-health-monitor-controller as processes: pages, flags, exit codes.

use std::time::Duration;

use bowline_api::{Event, PersistentVolumeClaim, StorageClass, build};
use kube::Api;
use serde_json::json;

use super::{DRIVER, Setup, bound, holder, ready};
use crate::support::https::{get, page_with};
use crate::support::objects::create;
use crate::support::ports::free_ports;
use crate::support::program::Program;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");

fn address(setup: &Setup) -> String {
    format!("-csi-address={}", setup.socket().display())
}

/// The kubelet restarts the driver by this page: it must follow the driver, and outlive it.
#[tokio::test(flavor = "multi_thread")]
async fn a_liveness_probe_follows_its_driver() {
    let setup = Setup::new().await;
    let [port, metrics] = free_ports();
    let server = format!("http://127.0.0.1:{port}");
    let words = ["livenessprobe", &address(&setup), &format!("-health-port={port}"), "-probe-timeout=5s"];
    let samples = format!("-metrics-address=127.0.0.1:{metrics}");
    let words = [&words[..], &[&samples]].concat();
    let mut probe = Program::start(setup.dir.path(), "livenessprobe", BINARY, &words);
    let closed = std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
    assert!(closed, "nothing is served before the driver has said its name");
    let mut driver = setup.driver();
    assert_eq!(page_with(&server, "/healthz", "ok").await, "ok");
    let (status, _) = get(&server, &json!({}), "/metrics").await;
    assert_eq!(status, Some(404), "metrics are not on the health port");
    let probes = format!(
        "csi_sidecar_operations_seconds_count{{driver_name=\"{DRIVER}\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/Probe\"}}"
    );
    page_with(&format!("http://127.0.0.1:{metrics}"), "/metrics", &probes).await;
    driver.end();
    let (status, text) = get(&server, &json!({}), "/healthz").await;
    assert_eq!(status, Some(500), "{text}");
    assert!(probe.end().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_liveness_probe_serves_health_and_metrics_on_one_endpoint() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let [port] = free_ports();
    let (server, endpoint) =
        (format!("http://127.0.0.1:{port}"), format!("--http-endpoint=127.0.0.1:{port}"));
    // The default may be given beside it.
    let words = ["livenessprobe", &address(&setup), &endpoint, "--health-port=9808"];
    let mut probe = Program::start(setup.dir.path(), "livenessprobe", BINARY, &words);
    page_with(&server, "/healthz", "ok").await;
    page_with(&server, "/metrics", "csi_sidecar_operations_seconds_count").await;
    assert!(probe.end().success());
    driver.end();
}

#[test]
fn a_liveness_probe_refuses_flags_that_exclude_each_other() {
    for words in [
        ["--http-endpoint=127.0.0.1:1", "--health-port=1"],
        ["--http-endpoint=127.0.0.1:1", "--metrics-address=127.0.0.1:2"],
    ] {
        let output = std::process::Command::new(BINARY).arg("livenessprobe").args(words).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{words:?}");
    }
    let output = std::process::Command::new(BINARY).args(["livenessprobe", "--version"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(2), "upstream has no such flag");
}

/// An image that vanishes is an abnormal condition of the local driver.
#[tokio::test(flavor = "multi_thread")]
async fn a_health_monitor_tells_the_claim_of_a_damaged_volume() {
    let setup = Setup::new().await;
    let client = setup.client.clone();
    let mut driver = setup.driver();
    let mut controllers = setup.core("kube-controller-manager", &["--leader-elect=false"]);
    let mut provisioner = setup.sidecar("csi-provisioner", 1);
    ready(&client, "node").await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, &build::class("now", DRIVER).build()).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("data").class("now").size("64Mi").build()).await.expect("a claim");
    bound(&claims, "data").await;
    let volumes = std::fs::read_dir(setup.dir.path().join("pool/volumes")).expect("a pool");
    let images =
        volumes.flatten().map(|volume| volume.path().join("disk.img")).filter(|image| image.exists());
    let lost = images.map(|image| std::fs::remove_file(image).expect("removed")).count();
    assert_eq!(lost, 1, "the image goes, the driver's record of the volume stays");
    // It looks at every image when it starts.
    driver.end();
    let mut driver = setup.driver();
    let [port] = free_ports();
    let (kubeconfig, endpoint) = (setup.kubeconfig(), format!("--http-endpoint=127.0.0.1:{port}"));
    let words = ["csi-external-health-monitor-controller", &address(&setup), &kubeconfig, &endpoint];
    let words = [
        &words[..],
        &["--list-volumes-interval=1s", "--leader-election", "--leader-election-namespace=kube-system"],
    ]
    .concat();
    let mut monitor = Program::start(setup.dir.path(), "health-monitor", BINARY, &words);
    holder(&client, "external-health-monitor-leader-local-csi-bowline-dev").await;
    let listed = "method_name=\"/csi.v1.Controller/ListVolumes\"} ";
    page_with(&format!("http://127.0.0.1:{port}"), "/metrics", listed).await;
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let found = async {
        loop {
            let all = events.list(&Default::default()).await.expect("events");
            if let Some(event) =
                all.items.into_iter().find(|e| e.reason.as_deref() == Some("VolumeConditionAbnormal"))
            {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let event = tokio::time::timeout(Duration::from_secs(60), found).await.expect("an event in time");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.involved_object.name.as_deref(), Some("data"));
    let component = event.source.as_ref().and_then(|source| source.component.clone());
    assert_eq!(component.as_deref(), Some(&*format!("csi-pv-monitor-controller-{DRIVER}")));
    for program in [&mut monitor, &mut provisioner, &mut controllers] {
        assert!(program.end().success(), "{}", program.name);
    }
    driver.end();
}
