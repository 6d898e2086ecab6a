//! Goal: roles run alone, as processes under upstream's names, with a second replica that takes over.
//! Method: an API server, a driver, and the controller manager, scheduler, provisioner and attacher as processes, two of
//! each sidecar. A claim is bound and its volume attached, by links to the binary as well as by subcommands; the leader
//! is killed, its successor goes on; nothing is left in the end.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod audit;
mod failures;
mod health;
mod pages;
mod pod;
mod probes;
mod sidecars;
#[path = "../support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;

use bowline_api::{
    CSINode, Lease, Node, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use bowline_api::{Meta, build, volume};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use support::control_plane::ControlPlane;
use support::objects::{create, delete, until, until_gone};
use support::program::Program;

const DRIVER: &str = "local.csi.bowline.dev";
const TOPOLOGY: &str = "topology.local.csi.bowline.dev/node";
const NAMESPACE: &str = "kube-system";

struct Setup {
    plane: ControlPlane,
    dir: tempfile::TempDir,
    client: Client,
}

impl Setup {
    async fn new() -> Self {
        let plane = ControlPlane::start().await;
        let client = plane.client().await;
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("a directory");
        Self { plane, dir, client }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    fn driver(&self) -> Program {
        let (pool, socket) = (self.dir.path().join("pool"), self.socket());
        let words = ["driver", "local", "--endpoint", socket.to_str().expect("text"), "--pool"];
        let words = [words.as_slice(), &[pool.to_str().expect("text"), "--node-id", "node"]].concat();
        Program::start(self.dir.path(), "driver", env!("CARGO_BIN_EXE_bowline"), &words)
    }

    fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.plane.kubeconfig().display())
    }

    fn core(&self, name: &str, words: &[&str]) -> Program {
        let kubeconfig = self.kubeconfig();
        let words = [&[name, kubeconfig.as_str(), "--secure-port=0"], words].concat();
        Program::start(self.dir.path(), name, env!("CARGO_BIN_EXE_bowline"), &words)
    }

    /// A sidecar by a link of its name to the binary, as a container image would have it.
    fn sidecar(&self, name: &str, replica: u8) -> Program {
        let link = self.dir.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), &link).expect("a link");
        }
        let (kubeconfig, address) = (self.kubeconfig(), format!("--csi-address={}", self.socket().display()));
        let namespace = format!("--leader-election-namespace={NAMESPACE}");
        let words = ["--leader-election", &namespace, &kubeconfig, &address, "--v=2"];
        let timing = [
            "--leader-election-lease-duration=6s",
            "--leader-election-renew-deadline=4s",
            "--leader-election-retry-period=1s",
        ];
        Program::start(
            self.dir.path(),
            &format!("{name}-{replica}"),
            link,
            &[words.as_slice(), &timing].concat(),
        )
    }

    fn images(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("pool/volumes")).map_or(0, |entries| {
            let real = |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
            entries.flatten().filter(real).count()
        })
    }
}

async fn ready(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    let metadata = json!({"name": name, "annotations": annotations, "labels": {TOPOLOGY: name}});
    let node = json!({"metadata": metadata});
    create(&nodes, &serde_json::from_value(node).expect("a node")).await.expect("created");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.expect("ready");
    let csi_nodes: Api<CSINode> = Api::all(client.clone());
    let driver = json!({"name": DRIVER, "nodeID": name, "topologyKeys": [TOPOLOGY]});
    let node = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
    create(&csi_nodes, &serde_json::from_value(node).expect("a CSINode")).await.expect("created");
}

async fn bound(claims: &Api<PersistentVolumeClaim>, name: &str) -> String {
    let is_bound = |claim: Option<&PersistentVolumeClaim>| claim.is_some_and(volume::bound);
    until(claims, name, "Bound", is_bound).await.expect("bound");
    volume::claim_volume(&claims.get(name).await.expect("there")).to_owned()
}

async fn holder(client: &Client, lease: &str) -> String {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let of =
        |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
    let held = |found: Option<&Lease>| found.is_some_and(|lease| !of(lease).is_empty());
    until(&leases, lease, "held", held).await.expect("held");
    of(&leases.get(lease).await.expect("there"))
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_run_alone_and_a_standby_takes_over() {
    let setup = Setup::new().await;
    let client = setup.client.clone();
    let mut driver = setup.driver();
    let mut controllers = setup.core("kube-controller-manager", &["--leader-elect=false"]);
    let mut provisioner = setup.sidecar("csi-provisioner", 1);
    let mut attacher = setup.sidecar("csi-attacher", 1);
    // People who replace upstream's program are told what this one does not do.
    controllers.says("nodes that stop reporting are not marked as NotReady").await;
    holder(&client, "local-csi-bowline-dev").await;
    holder(&client, "external-attacher-leader-local-csi-bowline-dev").await;
    let mut standby = setup.sidecar("csi-provisioner", 2);
    let mut other = setup.sidecar("csi-attacher", 2);

    ready(&client, "node").await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, &build::class("now", DRIVER).build()).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("first").class("now").size("64Mi").build()).await.expect("a claim");
    let first = bound(&claims, "first").await;

    // Killed without a word: the standby follows when the lease has run out.
    provisioner.kill();
    create(&claims, &build::claim("second").class("now").size("64Mi").build()).await.expect("a claim");
    bound(&claims, "second").await;
    assert_eq!(setup.images(), 2, "PROV-1");

    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    let attachment = json!({"metadata": {"name": "by-hand"}, "spec":
        {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": first}}});
    let attachment: VolumeAttachment = serde_json::from_value(attachment).expect("an attachment");
    create(&attachments, &attachment).await.expect("created");
    let attached = |a: Option<&VolumeAttachment>| a.is_some_and(volume::attached);
    until(&attachments, "by-hand", "attached", attached).await.expect("attached");
    // Asked to end: the lease is handed over.
    assert!(attacher.end().success());
    delete(&attachments, "by-hand").await.expect("deleted");
    until_gone(&attachments, "by-hand").await.expect("detached by the other replica");

    for name in ["first", "second"] {
        delete(&claims, name).await.expect("deleted");
        until_gone(&claims, name).await.expect("gone");
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&Default::default()).await.expect("a list") {
        until_gone(&volumes, volume.name()).await.expect("deleted");
    }
    assert_eq!(setup.images(), 0, "PROV-2");
    for program in [&mut standby, &mut other, &mut controllers] {
        assert!(program.end().success(), "{}", program.name);
    }
    driver.end();
}

/// The kubelet's part is played by hand: what counts is the socket, its answer, and what is left of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_presents_its_driver() {
    let setup = Setup::new().await;
    let mut driver = setup.driver();
    let registry = setup.dir.path().join("registry");
    let [address, path, directory] = [
        format!("--csi-address={}", setup.socket().display()),
        format!("--kubelet-registration-path={}", setup.socket().display()),
        format!("--plugin-registration-path={}", registry.display()),
    ];
    let [port] = support::ports::free_ports();
    let endpoint = format!("-http-endpoint=127.0.0.1:{port}");
    let words = ["csi-node-driver-registrar", &address, &path, &directory, "-timeout=30s", &endpoint];
    let mut registrar = Program::start(setup.dir.path(), "registrar", env!("CARGO_BIN_EXE_bowline"), &words);
    let socket = registry.join(format!("{DRIVER}-reg.sock"));
    support::until_exists(&socket).await;
    let health = || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it serves");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let answer = health();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    assert!(registrar.end().success());
    assert!(!socket.exists(), "the kubelet forgets the driver when its socket goes");
    driver.end();
}

#[test]
fn what_is_wrong_is_one_line() {
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(words).env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["csi-attacher", "--csi-adress=/x"]);
    assert!(code == Some(2) && text.contains("csi-address"), "{code:?} {text}");
    let (code, text) = run(&["csi-attacher", "--kubeconfig=/nonexistent/kubeconfig"]);
    assert!(
        code == Some(1) && text.lines().count() == 1 && text.contains("/nonexistent/kubeconfig"),
        "{code:?} {text}"
    );
    let (code, text) = run(&["csi-attacher"]);
    assert!(code == Some(1) && text.lines().count() == 1, "outside of a pod: {code:?} {text}");
    let (code, text) = run(&["kube-controller-manager", "--controllers=deployment-controller"]);
    assert!(code == Some(1) && text.contains("not part of this program"), "{code:?} {text}");
    let label = "--node-labels=kubernetes.io/role=x";
    let (code, text) = run(&["kubelet", "--kubeconfig=/nonexistent/kubeconfig", label]);
    assert!(code == Some(1) && text.contains("kubernetes.io/role"), "{code:?} {text}");
    let (code, text) = run(&["kube-controller-manager", "--secure-port=0", "--kubeconfig=/nonexistent"]);
    assert!(code == Some(1) && text.contains("/nonexistent"), "{code:?} {text}");
}
