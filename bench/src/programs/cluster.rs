//! An API server of ours with a class, a driver, and programs that are started on them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use http::Method;
use serde_json::{Value, json};

use super::By;
use crate::apiserver::client::{Client, Kinds};
use crate::apiserver::ours;
use crate::apiserver::process::Process;
use crate::apiserver::subject::Subject;

pub const DRIVER: &str = "local.csi.bowline.dev";
/// The node of the driver; upstream's provisioner looks for one with the driver's topology.
const NODE: &str = "bench";
const TOPOLOGY: &str = "topology.local.csi.bowline.dev/node";
/// The node of the kubelet.
pub const KUBELET: &str = "idle";
/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what a standby has done.
const LOOK: Duration = Duration::from_millis(5);

pub struct Cluster {
    pub program: PathBuf,
    pub dir: tempfile::TempDir,
    server: Subject,
    client: Client,
    driver: Process,
    started: usize,
}

impl Cluster {
    pub async fn start(program: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bowline-bench-").tempdir();
        let dir = dir.context("make a scratch directory")?;
        let server = ours::start(program, dir.path()).await?;
        let client = server.target.connect().await?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let words = ["driver", "local", "--endpoint", &path("csi.sock"), "--pool", &path("pool")];
        let words: Vec<String> = words.into_iter().chain(["--node-id", NODE]).map(String::from).collect();
        let driver = Process::start(program, &words, dir.path().join("driver.log"))?;
        let mut cluster = Self { program: program.to_owned(), dir, server, client, driver, started: 0 };
        cluster.until("the driver listens", |cluster| cluster.path("csi.sock").exists()).await?;
        let class =
            json!({"metadata": {"name": "now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"});
        cluster.create("/apis/storage.k8s.io/v1/storageclasses", &class).await?;
        let node = json!({"metadata": {"name": NODE, "labels": {TOPOLOGY: NODE}}});
        cluster.create("/api/v1/nodes", &node).await?;
        let driver = json!({"name": DRIVER, "nodeID": NODE, "topologyKeys": [TOPOLOGY]});
        let node = json!({"metadata": {"name": NODE}, "spec": {"drivers": [driver]}});
        cluster.create("/apis/storage.k8s.io/v1/csinodes", &node).await?;
        Ok(cluster)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The administrator's.
    pub fn kubeconfig(&self) -> String {
        format!("--kubeconfig={}", self.path("data/kubeconfig").display())
    }

    /// A node's own.
    pub fn node_kubeconfig(&self) -> Result<String> {
        let now = jiff::Timestamp::now();
        let authority = Authority::open(&self.path("data"), now)?;
        let certificate = authority.issue_client(&format!("system:node:{KUBELET}"), "system:nodes", now)?;
        let (path, address) = (self.path("node.kubeconfig"), self.server.target.address);
        write_kubeconfig(&path, &format!("https://{address}"), &authority, &certificate)?;
        Ok(format!("--kubeconfig={}", path.display()))
    }

    /// Starts one, under its own name, or ours by it.
    pub fn run(&mut self, by: &By, name: &str, words: &[String]) -> Result<Process> {
        let number = self.next();
        let log = self.path(&format!("{name}-{number}.log"));
        match by {
            By::Us(program) => {
                let words = [&[name.to_owned()], words].concat();
                Process::start(program, &words, log)
            }
            By::Upstream(program) => Process::start(program, words, log),
        }
    }

    pub async fn create(&mut self, path: &str, object: &Value) -> Result<()> {
        let body = serde_json::to_vec(object)?;
        self.client.send(Method::POST, path, Kinds::JSON, body).await.map(drop)
    }

    /// `None` as long as it is not there.
    pub async fn get(&mut self, path: &str) -> Option<Value> {
        let body = self.client.send(Method::GET, path, Kinds::JSON, Vec::new()).await.ok()?;
        serde_json::from_slice(&body).ok()
    }

    pub async fn delete(&mut self, path: &str) -> Result<()> {
        self.client.send(Method::DELETE, path, Kinds::JSON, Vec::new()).await.map(drop)
    }

    /// A number that was not used before.
    pub fn next(&mut self) -> usize {
        self.started += 1;
        self.started
    }

    /// Waits for something that only a look can tell.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        while !holds(self) {
            if Instant::now() > patience {
                bail!("waited in vain: {what}");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Looks at this path until it holds what is wanted.
    pub async fn until_found(&mut self, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        while !self.get(path).await.is_some_and(|found| wanted(&found)) {
            if Instant::now() > patience {
                bail!("waited in vain for `{path}`");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    pub async fn stop(mut self) -> Result<()> {
        self.driver.stop().await?;
        self.server.stop().await
    }
}
