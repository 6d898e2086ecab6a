//! The real kubelet in its place, as a process with a node's own rights.

use bowline_api::{CSINode, Pod, build};
use kube::Api;

use crate::setup::{By, DRIVER, Lead, NODE, Setup};
use crate::support::machine;
use crate::support::objects::{create, delete, until, until_gone};
use crate::support::ports::free_ports;
use crate::support::program::Program;
use crate::support::upstream::client_of;

pub fn kubelet(setup: &Setup, port: u16) -> Program {
    let kubeconfig = setup.server.user(&format!("system:node:{NODE}"), "system:nodes");
    let words = [
        "kubelet".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", setup.dir().join("kubelet").display()),
        format!("--hostname-override={NODE}"),
        format!("--client-ca-file={}", setup.dir().join("ca.crt").display()),
        format!("--port={port}"),
        "--node-ip=127.0.0.1".to_owned(),
        "--address=127.0.0.1".to_owned(),
        "--healthz-port=0".to_owned(),
        "--drain=true".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Program::start(setup.dir(), "kubelet", env!("CARGO_BIN_EXE_bowline"), &words)
}

/// The page of metrics, asked for with a certificate that the node's authority signed.
async fn metrics(setup: &Setup, port: u16) -> String {
    let text = std::fs::read_to_string(setup.server.user("monitor", "monitors")).expect("a kubeconfig");
    let line = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        match line.trim_start().split(':').next() {
            Some("server") => format!("{indent}server: https://127.0.0.1:{port}\n"),
            // The kubelet signs its own.
            Some("certificate-authority-data") => format!("{indent}insecure-skip-tls-verify: true\n"),
            _ => format!("{line}\n"),
        }
    };
    let path = setup.dir().join("kubelet.kubeconfig");
    std::fs::write(&path, text.lines().map(line).collect::<String>()).expect("a kubeconfig");
    let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
    client_of(&path).await.request_text(request).await.expect("a page")
}

/// Ends what a failed test left.
pub struct Cleanup(pub std::path::PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            machine::clean_below(&self.0);
        }
    }
}

async fn journey(by: By) {
    let setup = Setup::new().await;
    let _cleanup = Cleanup(setup.dir().to_owned());
    let _driver = setup.driver().await;
    let _controllers = setup.core(by, "kube-controller-manager", Lead::Alone, 1);
    let _scheduler = setup.core(by, "kube-scheduler", Lead::Alone, 1);
    let _provisioner = setup.sidecar(By::Us, "csi-provisioner", 1).await;
    let _attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let _registrar = setup.registrar(&setup.dir().join("kubelet/plugins_registry"));
    let [port] = free_ports();
    let mut kubelet = kubelet(&setup, port);
    let csi_nodes: Api<CSINode> = Api::all(setup.client.clone());
    let knows = |node: Option<&CSINode>| {
        node.is_some_and(|node| node.spec.drivers.iter().any(|driver| driver.name == DRIVER))
    };
    until(&csi_nodes, NODE, "with the driver", knows).await.expect("registered");

    setup.claim("eager", "now").await;
    setup.bound("eager").await;
    setup.claim("patient", "later").await;
    setup.account_is_there().await;
    let script = "echo kept > /eager/file && cp /eager/file /patient/file && sync && sleep 600";
    let pod = build::pod("user").shell(script).mount("eager", "/eager").mount("patient", "/patient");
    let pods: Api<Pod> = Api::default_namespaced(setup.client.clone());
    create(&pods, &pod.grace_seconds(1).build()).await.expect("a pod");
    setup.running("user").await;
    assert_eq!(setup.images(), 2, "PROV-1");
    let page = metrics(&setup, port).await;
    for family in ["workqueue_adds_total{name=\"volumemanager\"}", "process_start_time_seconds"] {
        assert!(page.lines().any(|line| line.starts_with(family)), "{family} is not in:\n{page}");
    }
    delete(&pods, "user").await.expect("deleted");
    until_gone(&pods, "user").await.expect("gone");
    setup.delete(&[], &["eager", "patient"]).await;
    setup.nothing_is_left().await;
    assert!(kubelet.end().success());
    setup.no_refusals(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_there_and_back_on_a_node_of_ours() {
    journey(By::Us).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_kubelet_and_sidecars_work_with_upstreams_controllers_and_scheduler() {
    journey(By::Upstream).await;
}
