//! Upstream's control plane with the kinds of snapshots, one node as the driver needs it, and the driver.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use http::Method;
use serde_json::{Value, json};

use super::audit::Audit;
use crate::apiserver::client::{Client, Kinds};
use crate::apiserver::process::Process;
use crate::apiserver::subject::Subject;
use crate::apiserver::upstream;
use crate::args::SidecarsArgs;

pub const DRIVER: &str = "local.csi.bowline.dev";
pub const NODE: &str = "bench";
pub const NAMESPACE: &str = "kube-system";
const TOPOLOGY: &str = "topology.local.csi.bowline.dev/node";
/// The controllers that a volume meets. Attachments are made by the bench, as the attach-detach controller makes them.
const CONTROLLERS: &str = "--controllers=persistentvolume-binder-controller,persistentvolume-protection-controller,persistentvolumeclaim-protection-controller";
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
const YAML: Kinds<'static> = Kinds { content: "application/yaml", accept: "application/json" };
pub const MERGE: Kinds<'static> =
    Kinds { content: "application/merge-patch+json", accept: "application/json" };

pub struct Cluster {
    dir: tempfile::TempDir,
    server: Subject,
    pub client: Client,
    pub audit: Audit,
    driver: Process,
    controllers: Process,
}

impl Cluster {
    pub async fn start(program: &Path, args: &SidecarsArgs) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bowline-bench-").tempdir();
        let dir = dir.context("make a scratch directory")?;
        let (audit, mut flags) = Audit::prepare(dir.path())?;
        // Upstream's provisioner and resizer ask for VolumeAttributesClasses in it.
        flags.push("--runtime-config=storage.k8s.io/v1beta1=true".to_owned());
        let server = upstream::start_with(&args.kube_apiserver, &args.etcd, dir.path(), &flags).await?;
        let client = server.target.connect().await?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let words = ["driver", "local", "--endpoint", &path("csi.sock"), "--pool", &path("pool")];
        let words: Vec<String> = words.into_iter().chain(["--node-id", NODE]).map(String::from).collect();
        let driver = Process::start(program, &words, dir.path().join("driver.log"))?;
        let admin = kubeconfig(dir.path(), &server, "admin", "system:masters")?;
        let words = [
            format!("--kubeconfig={}", admin.display()),
            CONTROLLERS.to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=1000".to_owned(),
            "--kube-api-burst=2000".to_owned(),
        ];
        let controllers = Process::start(
            &args.kube_controller_manager,
            &words,
            dir.path().join("kube-controller-manager.log"),
        )?;
        let mut cluster = Self { dir, server, client, audit, driver, controllers };
        cluster.until_listening().await?;
        cluster.kinds(&args.snapshot_crds).await?;
        cluster.objects().await?;
        Ok(cluster)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// With a certificate of this user, by whose name the audit log tells sidecars apart.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        kubeconfig(self.dir.path(), &self.server, user, "sidecars")
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Result<Client> {
        self.server.target.connect().await
    }

    async fn until_listening(&mut self) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        while !self.path("csi.sock").exists() {
            if let Some(why) = self.driver.ended()? {
                bail!("the driver ended: {why}");
            }
            if Instant::now() > patience {
                bail!("the driver does not listen");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The kinds of snapshots, and waits until they are served.
    async fn kinds(&mut self, folder: &Path) -> Result<()> {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for entry in std::fs::read_dir(folder).with_context(|| format!("list `{}`", folder.display()))? {
            let path = entry?.path();
            let is_kind = path.file_name().and_then(|name| name.to_str());
            if is_kind.is_some_and(|name| name.contains("storage.k8s.io_")) {
                let text = std::fs::read(&path).with_context(|| format!("read `{}`", path.display()))?;
                self.client.send(Method::POST, definitions, YAML, text).await.context("install a kind")?;
            }
        }
        for kind in [
            "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
            "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
            "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses",
        ] {
            let patience = Instant::now() + PATIENCE;
            while self.get(kind).await.is_err() {
                if Instant::now() > patience {
                    bail!("`{kind}` is not served");
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    async fn objects(&mut self) -> Result<()> {
        let topology = json!({"name": DRIVER, "nodeID": NODE, "topologyKeys": [TOPOLOGY]});
        let objects = [
            ("/api/v1/nodes", json!({"metadata": {"name": NODE, "labels": {TOPOLOGY: NODE}}})),
            (
                "/apis/storage.k8s.io/v1/csinodes",
                json!({"metadata": {"name": NODE}, "spec": {"drivers": [topology]}}),
            ),
            (
                "/apis/storage.k8s.io/v1/csidrivers",
                json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}}),
            ),
            (
                "/apis/storage.k8s.io/v1/storageclasses",
                json!({"metadata": {"name": "now"}, "provisioner": DRIVER, "allowVolumeExpansion": true}),
            ),
            (
                "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses",
                json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
                    "metadata": {"name": "now"}, "driver": DRIVER, "deletionPolicy": "Delete"}),
            ),
        ];
        for (path, object) in objects {
            create(&mut self.client, path, &object).await?;
        }
        Ok(())
    }

    pub async fn get(&mut self, path: &str) -> Result<Value> {
        get(&mut self.client, path).await
    }

    pub async fn stop(mut self) -> Result<()> {
        self.controllers.stop().await?;
        self.driver.stop().await?;
        self.server.stop().await
    }
}

pub async fn get(client: &mut Client, path: &str) -> Result<Value> {
    let body = client.send(Method::GET, path, Kinds::JSON, Vec::new()).await?;
    serde_json::from_slice(&body).with_context(|| format!("read `{path}`"))
}

pub async fn create(client: &mut Client, path: &str, object: &Value) -> Result<()> {
    let body = serde_json::to_vec(object)?;
    client
        .send(Method::POST, path, Kinds::JSON, body)
        .await
        .map(drop)
        .with_context(|| format!("create in `{path}`"))
}

fn kubeconfig(dir: &Path, server: &Subject, user: &str, group: &str) -> Result<PathBuf> {
    let now = jiff::Timestamp::now();
    let authority = Authority::open(dir, now)?;
    let certificate = authority.issue_client(user, group, now)?;
    let path = dir.join(format!("{user}.kubeconfig"));
    write_kubeconfig(&path, &format!("https://{}", server.target.address), &authority, &certificate)?;
    Ok(path)
}
