//! A real control plane with the kinds of snapshots, the local driver and a node of ours: everything but the sidecars.

use serde_json::json;

use crate::kubelet::{Cleanup, kubelet};
use crate::setup::{By, DRIVER, Lead, NODE, Setup};
use crate::support::objects::until;
use crate::support::peers::peer;
use crate::support::ports::free_ports;
use crate::support::program::Program;

use super::objects::{ATTRIBUTES, CLASS, GROUP_CLASS, Objects, SNAPSHOT_CLASS};

/// The versions in which upstream's provisioner 5.1.0 and resizer 1.14.0 ask for VolumeAttributesClasses.
const SERVED: &str = "--runtime-config=storage.k8s.io/v1beta1=true";
/// A successor follows soon, and a hand-over is a part of the tests.
const LEASE: [&str; 3] = [
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=1s",
];

const GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=true";

/// The sidecars that upstream's module proxy serves, with the gates that the script needs.
pub const SIDECARS: [(&str, &[&str]); 4] = [
    ("csi-provisioner", &["--feature-gates=VolumeAttributesClass=true"]),
    ("csi-resizer", &["--feature-gates=VolumeAttributesClass=true"]),
    ("csi-snapshotter", &[GROUPS]),
    ("snapshot-controller", &[GROUPS]),
];

pub struct SidecarCluster {
    pub objects: Objects,
    // Ended in this order; what they stand on last.
    attacher: Program,
    kubelet: Program,
    _registrar: Program,
    _scheduler: Program,
    _controllers: Program,
    _driver: Program,
    _cleanup: Cleanup,
    pub setup: Setup,
}

impl SidecarCluster {
    pub async fn start() -> Self {
        let setup = Setup::with(&[SERVED]).await;
        let cleanup = Cleanup(setup.dir().to_owned());
        let crds = peer("snapshot-crds");
        setup.server.kubectl(&["create", "--kustomize", crds.to_str().expect("text")]);
        let crds = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        setup.server.kubectl(&crds);
        let driver = setup.driver().await;
        let controllers = setup.core(By::Upstream, "kube-controller-manager", Lead::Alone, 1);
        let scheduler = setup.core(By::Upstream, "kube-scheduler", Lead::Alone, 1);
        for (program, _) in SIDECARS {
            setup.server.grant(program);
        }
        setup.server.grant("volumeattributesclasses");
        // The module proxy does not serve upstream's.
        let attacher = setup.sidecar(By::Us, "csi-attacher", 1).await;
        let registrar = setup.registrar(&setup.dir().join("kubelet/plugins_registry"));
        let [port] = free_ports();
        let kubelet = kubelet(&setup, port);
        let csi_nodes: kube::Api<bowline_api::CSINode> = kube::Api::all(setup.client.clone());
        let knows = |node: Option<&bowline_api::CSINode>| {
            node.is_some_and(|node| node.spec.drivers.iter().any(|driver| driver.name == DRIVER))
        };
        until(&csi_nodes, NODE, "with the driver", knows).await.expect("registered");
        setup.account_is_there().await;
        let cluster = Self {
            objects: Objects(setup.client.clone()),
            attacher,
            kubelet,
            _registrar: registrar,
            _scheduler: scheduler,
            _controllers: controllers,
            _driver: driver,
            _cleanup: cleanup,
            setup,
        };
        cluster.classes().await;
        cluster
    }

    async fn classes(&self) {
        let class = |mode: &str| json!({"provisioner": DRIVER, "allowVolumeExpansion": true, "volumeBindingMode": mode});
        self.objects.create(CLASS, "growing", class("Immediate")).await;
        self.objects.create(CLASS, "growing-later", class("WaitForFirstConsumer")).await;
        for (name, ahead) in [("near", "64"), ("far", "256")] {
            let class = json!({"driverName": DRIVER, "parameters": {"readAheadKiB": ahead}});
            self.objects.create(ATTRIBUTES, name, class).await;
        }
        let class = |key: &str| json!({"metadata": {"annotations": {key: "true"}}, "driver": DRIVER, "deletionPolicy": "Delete"});
        let key = "snapshot.storage.kubernetes.io/is-default-class";
        self.objects.create(SNAPSHOT_CLASS, "local", class(key)).await;
        let key = "groupsnapshot.storage.kubernetes.io/is-default-class";
        self.objects.create(GROUP_CLASS, "local", class(key)).await;
    }

    /// Starts one of [`SIDECARS`]; `log` is what its log file is called.
    pub async fn sidecar(&self, by: By, program: &str, log: &str) -> Program {
        let (_, gates) = SIDECARS.iter().find(|(name, _)| *name == program).expect("one of the table");
        let address = format!("--csi-address={}", self.setup.socket().display());
        // Its controller knows no driver.
        let address = (program != "snapshot-controller").then_some(address.as_str());
        let words = address.into_iter().chain(LEASE).chain(["--v=5"]).chain(gates.iter().copied());
        // Ours have no group snapshots yet and refuse the gate.
        let words: Vec<&str> = words.filter(|word| by == By::Upstream || *word != GROUPS).collect();
        self.setup.account_program(by, program, log, &words).await
    }

    /// All of [`SIDECARS`]: these of ours, upstream's in the other places.
    pub async fn sidecars(&self, ours: &[&str]) -> Vec<Program> {
        let mut started = Vec::new();
        for (program, _) in SIDECARS {
            let by = if ours.contains(&program) { By::Us } else { By::Upstream };
            started.push(self.sidecar(by, program, program).await);
        }
        started
    }

    /// What the driver keeps: volumes, snapshots and groups.
    pub fn kept(&self, shelf: &str) -> usize {
        let entries = std::fs::read_dir(self.setup.dir().join("pool").join(shelf)).into_iter().flatten();
        let whole = |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        entries.flatten().filter(whole).count()
    }

    /// Ends the node and the attacher, which have nothing left to do.
    pub fn end(mut self) {
        assert!(self.kubelet.end().success(), "the kubelet ends");
        assert!(self.attacher.end().success(), "the attacher ends");
    }
}
