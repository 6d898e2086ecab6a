//! The server, the driver, the programs around them, and the journey that each mix has to carry.

use std::path::{Path, PathBuf};

use bowline_api::{
    CSIDriver, Lease, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use bowline_api::{StorageClass, VolumeAttachment, build, volume};
use kube::{Api, Client};
use serde_json::json;

use crate::support::gate::Gate;
use crate::support::namespaces::Namespaces;
use crate::support::node::TestNode;
use crate::support::objects::{create, delete, until, until_gone, until_phase};
use crate::support::peers::peer;
use crate::support::program::Program;
use crate::support::upstream::{NAMESPACE, UpstreamServer};
use crate::support::{PATIENCE, until_exists};

pub const DRIVER: &str = "local.csi.bowline.dev";
pub const NODE: &str = "node-1";
const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
/// Of upstream's program: those that a volume meets, and what makes pods and nodes usable.
const CONTROLLERS: &str = "--controllers=persistentvolume-binder-controller,persistentvolume-attach-detach-controller,persistentvolume-protection-controller,persistentvolumeclaim-protection-controller,node-lifecycle-controller,serviceaccount-controller,root-ca-certificate-publisher-controller";

/// Whose program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Us,
    Upstream,
}

/// How long a lease lasts.
#[derive(Clone, Copy)]
pub enum Lead {
    /// Without a lease.
    Alone,
    /// So that a successor follows soon.
    Shortly,
}

pub struct Setup {
    pub server: UpstreamServer,
    pub client: Client,
    pub gate: Gate,
}

impl Setup {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// The same with further flags of kube-apiserver.
    pub async fn with(flags: &[&str]) -> Self {
        let server = UpstreamServer::start_with(flags).await;
        let client = server.client().await;
        let gate = Gate::start(&server.dir.path().join("csi.sock"), server.dir.path().join("driver.sock"));
        let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}});
        let drivers: Api<CSIDriver> = Api::all(client.clone());
        create(&drivers, &serde_json::from_value(driver).expect("a driver")).await.expect("created");
        let classes: Api<StorageClass> = Api::all(client.clone());
        for class in [build::class("now", DRIVER), build::class("later", DRIVER).wait_for_consumer()] {
            create(&classes, &class.build()).await.expect("a class");
        }
        Self { server, client, gate }
    }

    pub fn dir(&self) -> &Path {
        self.server.dir.path()
    }

    /// As programs reach the driver: through a gate.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("csi.sock")
    }

    /// Returns when it listens: behind the gate its absence would look like its end.
    pub async fn driver(&self) -> Program {
        self.driver_by(|words| Program::start(self.dir(), "driver", BOWLINE, words)).await
    }

    /// The same where a node of its own sees what it mounts.
    pub async fn driver_in(&self, namespaces: &Namespaces) -> Program {
        self.driver_by(|words| namespaces.program(self.dir(), "driver", BOWLINE, words, &[])).await
    }

    async fn driver_by(&self, start: impl FnOnce(&[&str]) -> Program) -> Program {
        let (pool, socket) = (self.dir().join("pool"), self.dir().join("driver.sock"));
        let words =
            ["driver", "local", "--endpoint", text(&socket), "--pool", text(&pool), "--node-id", NODE];
        let driver = start(&words);
        until_exists(&socket).await;
        driver
    }

    /// kube-controller-manager or kube-scheduler as the user that upstream runs it as.
    pub fn core(&self, by: By, program: &str, lead: Lead, replica: u8) -> Program {
        let user = format!("system:{program}");
        let kubeconfig = self.server.user(&user, &user);
        let further = [&self.root_ca(), "--use-service-account-credentials=true"];
        let further = if program == "kube-controller-manager" { further.as_slice() } else { &[] };
        self.core_as(by, program, lead, replica, &kubeconfig, further)
    }

    /// What makes kube-controller-manager publish the server's authority.
    pub fn root_ca(&self) -> String {
        format!("--root-ca-file={}", self.dir().join("ca.crt").display())
    }

    /// The same as another user and with further flags.
    pub fn core_as(
        &self,
        by: By,
        program: &str,
        lead: Lead,
        replica: u8,
        kubeconfig: &Path,
        further: &[&str],
    ) -> Program {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let mut words = vec![kubeconfig.as_str(), "--secure-port=0", "--v=2"];
        words.extend(further);
        match lead {
            Lead::Alone => words.push("--leader-elect=false"),
            Lead::Shortly => words.extend([
                "--leader-elect-lease-duration=15s",
                "--leader-elect-renew-deadline=10s",
                "--leader-elect-retry-period=2s",
            ]),
        }
        let name = format!("{program}-{replica}");
        match by {
            By::Us => Program::start(self.dir(), &name, BOWLINE, &[&[program], words.as_slice()].concat()),
            By::Upstream => {
                if program == "kube-controller-manager" {
                    words.push(CONTROLLERS);
                }
                Program::start(self.dir(), &name, peer(program), &words)
            }
        }
    }

    /// A sidecar as the service account that upstream deploys it with.
    pub async fn sidecar(&self, by: By, program: &str, replica: u8) -> Program {
        self.server.grant(program);
        self.sidecar_as_granted(by, program, replica).await
    }

    /// The same with the rights that its account has already.
    pub async fn sidecar_as_granted(&self, by: By, program: &str, replica: u8) -> Program {
        let address = format!("--csi-address={}", self.socket().display());
        let lease = [
            "--leader-election-lease-duration=15s",
            "--leader-election-renew-deadline=10s",
            "--leader-election-retry-period=2s",
            "--v=2",
        ];
        let further = [&[address.as_str()], lease.as_slice()].concat();
        self.account_program(by, program, &format!("{program}-{replica}"), &further).await
    }

    /// A program that works as the service account of its name and takes part in an election.
    pub async fn account_program(&self, by: By, program: &str, log: &str, further: &[&str]) -> Program {
        let kubeconfig = format!("--kubeconfig={}", self.server.account(program).await.display());
        let namespace = format!("--leader-election-namespace={NAMESPACE}");
        let words = [&[kubeconfig.as_str(), "--leader-election", &namespace], further].concat();
        match by {
            By::Us => Program::start(self.dir(), log, BOWLINE, &[&[program], words.as_slice()].concat()),
            By::Upstream => Program::start(self.dir(), log, peer(program), &words),
        }
    }

    /// The registrar, for a kubelet that looks here for drivers.
    pub fn registrar(&self, registry: &Path) -> Program {
        let words = [
            "csi-node-driver-registrar".to_owned(),
            format!("--csi-address={}", self.socket().display()),
            format!("--kubelet-registration-path={}", self.socket().display()),
            format!("--plugin-registration-path={}", registry.display()),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Program::start(self.dir(), "registrar", BOWLINE, &words)
    }

    /// The registrar, and a node whose kubelet takes its driver up.
    pub async fn node(&self) -> (Program, TestNode) {
        let registry = self.dir().join("registry");
        let registrar = self.registrar(&registry);
        let node = TestNode::start(&self.server, NODE, &registry.join(format!("{DRIVER}-reg.sock"))).await;
        (registrar, node)
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::default_namespaced(self.client.clone())
    }

    pub async fn claim(&self, name: &str, class: &str) {
        let claim = build::claim(name).class(class).size("64Mi").build();
        create(&self.claims(), &claim).await.expect("a claim");
    }

    pub async fn bound(&self, name: &str) {
        let is_bound = |claim: Option<&PersistentVolumeClaim>| claim.is_some_and(volume::bound);
        until(&self.claims(), name, "Bound", is_bound).await.expect("bound");
    }

    /// Pods are refused before.
    pub async fn account_is_there(&self) {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client.clone());
        let there = |account: Option<&ServiceAccount>| account.is_some();
        until(&accounts, "default", "made by its controller", there).await.expect("an account");
    }

    /// A pod with these claims, which runs as soon as they are attached.
    pub async fn pod(&self, name: &str, claims: &[&str]) {
        self.account_is_there().await;
        let volumes: Vec<_> = claims
            .iter()
            .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        let containers = json!([{"name": "main", "image": "scratch"}]);
        let spec =
            json!({"containers": containers, "volumes": volumes, "automountServiceAccountToken": false});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        create(&pods, &serde_json::from_value(pod).expect("a pod")).await.expect("created");
    }

    pub async fn running(&self, pod: &str) {
        until_phase(&self.client, pod, "Running").await.expect("it runs");
    }

    pub fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.client.clone())
    }

    /// All pods and claims go, and all that was made for them.
    pub async fn delete(&self, names: &[&str], claims: &[&str]) {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        for pod in names {
            delete(&pods, pod).await.expect("deleted");
            until_gone(&pods, pod).await.expect("gone");
        }
        for claim in claims {
            delete(&self.claims(), claim).await.expect("deleted");
            until_gone(&self.claims(), claim).await.expect("gone");
        }
        let attachments = self.attachments();
        for attachment in attachments.list(&Default::default()).await.expect("a list") {
            until_gone(&attachments, attachment.name()).await.expect("detached");
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        for volume in volumes.list(&Default::default()).await.expect("a list") {
            until_gone(&volumes, volume.name()).await.expect("deleted");
        }
    }

    /// Neither objects nor images nor attachments are left of anything.
    pub async fn nothing_is_left(&self) {
        assert_eq!(self.images(), 0, "PROV-2");
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        assert_eq!(volumes.list(&Default::default()).await.expect("a list").items.len(), 0);
        assert_eq!(self.attachments().list(&Default::default()).await.expect("a list").items.len(), 0);
        let reported = |node: Option<&Node>| {
            let status = node.and_then(|node| node.status.as_ref());
            status.and_then(|status| status.volumes_attached.as_ref()).is_none_or(Vec::is_empty)
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        until(&nodes, NODE, "without volumes", reported).await.expect("the report is taken back");
    }

    /// There and back: bound at once and by the scheduler, attached, used, detached, deleted.
    pub async fn journey(&self) {
        self.claim("eager", "now").await;
        self.bound("eager").await;
        self.claim("patient", "later").await;
        self.pod("user", &["eager", "patient"]).await;
        self.bound("patient").await;
        self.running("user").await;
        assert_eq!(self.images(), 2, "PROV-1");
        self.delete(&["user"], &["eager", "patient"]).await;
        self.nothing_is_left().await;
    }

    /// Images of the driver that are whole.
    pub fn images(&self) -> usize {
        std::fs::read_dir(self.dir().join("pool/volumes")).map_or(0, |entries| {
            let real = |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
            entries.flatten().filter(real).count()
        })
    }

    pub async fn until_images(&self, count: usize) {
        let made = async {
            while self.images() != count {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, made).await.expect("the driver made the volume");
    }

    /// Waits until some replica holds the lease.
    pub async fn held(&self, lease: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let held = |lease: Option<&Lease>| {
            let spec = lease.and_then(|lease| lease.spec.as_ref());
            spec.and_then(|spec| spec.holder_identity.as_ref()).is_some_and(|holder| !holder.is_empty())
        };
        until(&leases, lease, "held", held).await.expect("held");
    }

    /// No program asked for what it may not do, but for what is written down here with its reason.
    pub fn no_refusals(&self, expected: &[&str]) {
        let refused = self.server.refusals();
        let unexpected: Vec<&String> =
            refused.iter().filter(|refused| !expected.contains(&refused.as_str())).collect();
        assert!(unexpected.is_empty(), "refused: {unexpected:#?}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}
