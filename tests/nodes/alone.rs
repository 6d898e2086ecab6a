//! API server, controller manager, scheduler, driver, provisioner, attacher, registrar and kubelet as processes; a claim and
//! a pod there and back. The kubelet ends and comes back meanwhile, and the container does not notice.

use std::io::{Read, Write};
use std::process::Command;

use bowline_api::{CSIDriver, CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use bowline_api::{Lease, Meta, VolumeAttachment, build, node};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;

use super::programs::Setup;
use super::support::objects::{create, delete, until, until_gone, until_phase};
use super::support::{self, machine};
use super::{BINARY, DRIVER, NODE, clients};

/// The answer to a GET without TLS.
fn get(port: u16, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it serves");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// What the API server refused.
fn refusals(log: &str) -> Vec<String> {
    let refused = |line: &&str| line.contains("forbidden") || line.contains("is not allowed to");
    log.lines().filter(refused).map(str::to_owned).collect()
}

async fn ready(client: &Client) -> Node {
    let nodes: Api<Node> = Api::all(client.clone());
    until(&nodes, NODE, "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
    let csi_nodes: Api<CSINode> = Api::all(client.clone());
    let knows =
        |found: Option<&CSINode>| found.is_some_and(|n| n.spec.drivers.iter().any(|d| d.name == DRIVER));
    until(&csi_nodes, NODE, "the driver", knows).await.expect("registered");
    nodes.get(NODE).await.expect("there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_with_a_nodes_own_rights_carries_a_volume_there_and_back() {
    let setup = Setup::new().await;
    let client = setup.client().await;
    let [health, port, manager] = support::ports::free_ports();
    let mut programs = vec![
        setup.start_controllers(manager),
        setup.start_as_admin("kube-scheduler", &["--secure-port=0", "--leader-elect=false"]),
        setup.start_driver(),
    ];
    let address = format!("--csi-address={}", setup.socket().display());
    programs.push(setup.start_as_admin("csi-provisioner", &[&address]));
    programs.push(setup.start_as_admin("csi-attacher", &[&address]));
    programs.push(setup.start_registrar());
    let mut kubelet = setup.start_kubelet(health, port);

    let drivers: Api<CSIDriver> = Api::all(client.clone());
    let driver =
        json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true, "podInfoOnMount": true}});
    create(&drivers, &serde_json::from_value(driver).expect("a driver")).await.expect("created");
    let found = ready(&client).await;
    let addresses = found.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
    assert!(addresses.iter().any(|a| a.type_ == "InternalIP" && a.address == "127.0.0.7"), "{addresses:?}");
    assert_eq!(found.label("example.com/rack"), Some("r1"));
    assert!(node::taints(&found).iter().any(|taint| taint.key == "example.com/new"), "{found:?}");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    assert!(leases.get(NODE).await.is_ok());
    let answer = get(health, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    clients::grant_rights(&client).await;
    clients::are_reviewed(&setup, &client, port, manager).await;

    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, &build::class("now", DRIVER).build()).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("data").class("now").size("64Mi").build()).await.expect("a claim");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let account: Api<bowline_api::ServiceAccount> = Api::default_namespaced(client.clone());
    until(&account, "default", "there", |found| found.is_some()).await.expect("an account");
    let pod =
        build::pod("p").shell("echo kept > /data/file; sleep 600").mount("data", "/data").grace_seconds(1);
    create(&pods, &pod.build()).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running");
    clients::reach_the_pod(&setup, &client).await;
    clients::find_operations(&client, port, &["volume_mount"]).await;
    clients::find_operations(&client, manager, &["volume_attach"]).await;

    // As upstream's: containers outlive the kubelet, and the next one takes them over.
    assert!(kubelet.end().success());
    let records = setup.root().join("bowline-state");
    assert!(!machine::processes_below(&records).is_empty(), "the container runs on");
    let log = refusals(&kubelet.log());
    kubelet = setup.start_kubelet(health, port);
    ready(&client).await;
    let running = pods.get("p").await.expect("there");
    let status = running.status.and_then(|status| status.container_statuses).unwrap_or_default();
    assert_eq!((status[0].restart_count, status[0].ready), (0, true));

    delete(&pods, "p").await.expect("deleted");
    until_gone(&pods, "p").await.expect("gone");
    delete(&claims, "data").await.expect("deleted");
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&ListParams::default()).await.expect("a list") {
        until_gone(&volumes, volume.name()).await.expect("deleted");
    }
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    assert!(attachments.list(&ListParams::default()).await.expect("a list").items.is_empty());
    clients::find_operations(&client, port, &["volume_unmount", "unmount_device"]).await;
    clients::find_operations(&client, manager, &["volume_detach"]).await;
    assert_eq!(setup.images(), 0, "PROV-2");
    assert_eq!(machine::mounts_below(setup.dir.path()), Vec::<String>::new());
    assert_eq!([log, refusals(&kubelet.log())].concat(), Vec::<String>::new(), "within its rights");
    assert!(kubelet.end().success());
    for program in &mut programs {
        assert!(program.end().success(), "{}", program.name);
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    let run = |words: &[&str]| {
        let output = Command::new(BINARY).arg("kubelet").args(words).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (words, text) in [
        (&["--v=1"][..], "--kubeconfig is required"),
        (&["--kubeconfig=/x", "--node-ip=1.2"], "--node-ip"),
        (&["--kubeconfig=/x", "--config=/nonexistent/y"], "/nonexistent/y"),
    ] {
        let (code, said) = run(words);
        assert!(code == Some(1) && said.lines().count() == 1 && said.contains(text), "{code:?} {said}");
    }
    let (code, said) = run(&["--pod-manifest-path=/etc/kubernetes/manifests"]);
    assert!(code == Some(1) && said.contains("static pods are not supported"), "{code:?} {said}");
    let (_, said) = run(&["--hostname-overide=x"]);
    assert!(said.contains("hostname-override"), "{said}");
}
