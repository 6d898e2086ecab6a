//! Upstream's kubelet with containerd, our registrar beside it, and our attacher: a claim and a pod there and back.

use std::path::{Path, PathBuf};

use bowline_api::{CSINode, Pod, pod};
use kube::Api;
use serde_json::json;

use crate::setup::{By, Lead, Setup};
use crate::support::PATIENCE;
use crate::support::containerd::{Containerd, IMAGE};
use crate::support::control_group::ControlGroup;
use crate::support::machine;
use crate::support::namespaces::Namespaces;
use crate::support::objects::{create, delete, until, until_gone};
use crate::support::peers::peer;
use crate::support::ports::free_ports;
use crate::support::program::Program;

const NODE: &str = "node-1";
const DRIVER: &str = "local.csi.bowline.dev";

/// A node of upstream's. Fields are dropped in this order: processes, then what they held.
struct Node {
    _kubelet: Program,
    containerd: Containerd,
    _driver: Program,
    namespaces: Namespaces,
    control_group: ControlGroup,
    released: Released,
}

/// Releases loop devices that a failed test left; mounts went with the namespace.
struct Released(PathBuf);

impl Drop for Released {
    fn drop(&mut self) {
        machine::release_below(&self.0);
    }
}

impl Node {
    async fn start(setup: &Setup) -> Self {
        let released = Released(setup.dir().to_owned());
        let name = setup.dir().file_name().and_then(|name| name.to_str()).expect("text");
        let control_group = ControlGroup::make(name);
        let namespaces = Namespaces::start(setup.dir()).await;
        let driver = setup.driver_in(&namespaces).await;
        let containerd = Containerd::start(setup.dir(), &namespaces).await;
        let kubelet = kubelet(setup, &namespaces, &containerd, name);
        Self { _kubelet: kubelet, containerd, _driver: driver, namespaces, control_group, released }
    }

    /// Directories of pods, mounts, loop devices, control groups and processes.
    fn remains(&self) -> Vec<String> {
        let dir = &self.released.0;
        let show = |paths: Vec<PathBuf>| paths.into_iter().map(|path| path.display().to_string());
        let mut remains = machine::mounts_seen_by(self.namespaces.pid(), dir);
        remains.extend(machine::loops_below(dir));
        remains.extend(self.containerd.tasks(&self.namespaces));
        remains.extend(show(self.control_group.pods()));
        remains.extend(show(entries(&dir.join("kubelet/pods"))));
        remains.extend(show(entries(&dir.join("kubelet/plugins/kubernetes.io/csi").join(DRIVER))));
        remains
    }

    /// The kubelet tidies up some of it after the pod has left the API.
    async fn nothing_is_left(&self) {
        let gone = async {
            while !self.remains().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        };
        let gone = tokio::time::timeout(PATIENCE, gone).await;
        assert!(gone.is_ok(), "left on the node: {:#?}", self.remains());
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn kubelet(setup: &Setup, namespaces: &Namespaces, containerd: &Containerd, group: &str) -> Program {
    let kubeconfig = setup.server.user(&format!("system:node:{NODE}"), "system:nodes");
    let [port] = free_ports();
    let dir = setup.dir();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": "127.0.0.1", "port": port, "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false},
            "x509": {"clientCAFile": dir.join("ca.crt")}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": containerd.endpoint(),
        // Control groups of this machine may be of the first version, which upstream takes only if it is told to.
        "failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{group}"), "oomScoreAdj": 0,
        "failSwapOn": false, "makeIPTablesUtilChains": false, "resolvConf": "",
        "podLogsDir": dir.join("pod-logs"), "volumePluginDir": dir.join("volume-plugins"),
        // A full disk of this machine is no reason to delete the image or to refuse the pod.
        "imageGCHighThresholdPercent": 100, "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%",
            "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
    });
    let file = dir.join("kubelet.json");
    std::fs::write(&file, config.to_string()).expect("a configuration");
    let words = [
        format!("--config={}", file.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", dir.join("kubelet").display()),
        format!("--cert-dir={}", dir.join("kubelet-certificates").display()),
        format!("--hostname-override={NODE}"),
        "--v=2".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    namespaces.program(dir, "kubelet", peer("kubelet"), &words, &[])
}

/// Writes to one claim, copies to the other; ready when the copy is there.
fn user() -> Pod {
    let script = "trap 'exit 0' TERM; echo kept > /eager/file && cp /eager/file /patient/file && sync && sleep 600 & wait";
    let probe = ["/bin/sh", "-c", "test \"$(cat /patient/file)\" = kept"];
    let claims = ["eager", "patient"];
    let mounts = claims.map(|claim| json!({"name": claim, "mountPath": format!("/{claim}")}));
    let volumes = claims.map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    let container = json!({"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "volumeMounts": mounts,
        "command": ["/bin/sh", "-c", script],
        "readinessProbe": {"exec": {"command": probe}, "periodSeconds": 1, "timeoutSeconds": 30}});
    let spec = json!({"hostNetwork": true, "terminationGracePeriodSeconds": 5, "restartPolicy": "Never",
        "containers": [container], "volumes": volumes});
    serde_json::from_value(json!({"metadata": {"name": "user"}, "spec": spec})).expect("a pod")
}

async fn journey(by: By) {
    let setup = Setup::new().await;
    let node = Node::start(&setup).await;
    let _registrar = setup.registrar(&setup.dir().join("kubelet/plugins_registry"));
    let _controllers = setup.core(by, "kube-controller-manager", Lead::Alone, 1);
    let _scheduler = setup.core(by, "kube-scheduler", Lead::Alone, 1);
    let _provisioner = setup.sidecar(by, "csi-provisioner", 1).await;
    let _attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
    let csi_nodes: Api<CSINode> = Api::all(setup.client.clone());
    let knows = |node: Option<&CSINode>| {
        node.is_some_and(|node| node.spec.drivers.iter().any(|driver| driver.name == DRIVER))
    };
    until(&csi_nodes, NODE, "with the driver", knows).await.expect("registered");

    setup.claim("eager", "now").await;
    setup.bound("eager").await;
    setup.claim("patient", "later").await;
    setup.account_is_there().await;
    let pods: Api<Pod> = Api::default_namespaced(setup.client.clone());
    create(&pods, &user()).await.expect("a pod");
    let is_ready = |pod: Option<&Pod>| {
        pod.and_then(|pod| pod::condition(pod, "Ready")).is_some_and(|condition| condition.status == "True")
    };
    until(&pods, "user", "ready", is_ready).await.expect("it runs with its volumes");
    assert_eq!(setup.images(), 2, "PROV-1");
    assert!(node.remains().len() > 4, "what is checked at the end is there now: {:?}", node.remains());

    delete(&pods, "user").await.expect("deleted");
    until_gone(&pods, "user").await.expect("gone");
    setup.delete(&[], &["eager", "patient"]).await;
    setup.nothing_is_left().await;
    node.nothing_is_left().await;
    setup.no_refusals(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_programs_serve_upstreams_kubelet() {
    journey(By::Us).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_registrar_and_attacher_work_in_upstreams_cluster() {
    journey(By::Upstream).await;
}
