//! `bowline up` with several nodes, and what the tests look at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_api::{Meta, Node, PersistentVolumeClaim, Pod, ServiceAccount, build, node};
use bowline_machinery::client::{self, Line, Source};
use kube::{Api, Client};
use rustix::process::{Pid, Signal};

use super::BINARY;
use super::support::objects::{create, until, until_phase};
use super::support::program::Program;
use super::support::{self, machine};

/// `bowline up --nodes 3` in a scratch directory.
pub struct Up {
    pub dir: tempfile::TempDir,
    port: u16,
    pub up: Program,
}

fn launch(dir: &Path, port: u16, nodes: u8) -> Program {
    let flags = [
        format!("--nodes={nodes}"),
        format!("--listen=127.0.0.1:{port}"),
        format!("--data-dir={}", dir.join("data").display()),
        format!("--kubelet-dir={}", dir.join("kubelet").display()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    Program::start(dir, "up", BINARY, &[&["up", "--node-name=n"], flags.as_slice()].concat())
}

impl Up {
    pub async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("a directory");
        let [port] = support::ports::free_ports();
        let up = launch(dir.path(), port, 3);
        support::until_exists(&dir.path().join("data/kubeconfig")).await;
        Self { dir, port, up }
    }

    /// Killed, if it runs, and started again on the same data.
    pub fn restart(&mut self, nodes: u8) {
        self.up.kill();
        self.up = launch(self.dir.path(), self.port, nodes);
    }

    /// A client of a server that answers.
    pub async fn client(&self) -> Client {
        let host = bowline_host::real::host(bowline_host::real::RealConfig::new("/nonexistent"));
        let disk = host.expect("host").disk;
        let source = Source::File(self.dir.path().join("data/kubeconfig"));
        let answered = async {
            loop {
                // Each start writes another kubeconfig.
                let client = client::connect(&source, Line::default(), disk.clone()).await.expect("a client");
                if client::check(&client).await.is_ok() {
                    return client;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(support::PATIENCE, answered).await.expect("the API server answers")
    }

    fn node_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join("data/nodes").join(name)
    }

    /// Process ids of a node's kubelet.
    pub fn kubelets(&self, name: &str) -> Vec<i32> {
        let (dir, name) = (self.dir.path().display().to_string(), format!("--hostname-override={name}"));
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_it = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&dir) && line.split('\0').any(|word| word == name)
        };
        pids.filter(is_it).collect()
    }

    /// Records of a node's containers that run.
    pub fn containers(&self, name: &str) -> BTreeSet<String> {
        let records = self.node_dir(name).join("kubelet/bowline-state");
        let record = |line: String| {
            let record = line.split(' ').find(|word| Path::new(word).starts_with(&records));
            record.map(str::to_owned)
        };
        machine::processes_below(&records).into_iter().filter_map(|(_, line)| record(line)).collect()
    }

    pub fn signal_kubelet(&self, name: &str, signal: Signal) {
        for pid in self.kubelets(name) {
            let pid = Pid::from_raw(pid).expect("a process id");
            rustix::process::kill_process(pid, signal).expect("sent");
        }
    }

    /// A kubelet of the node that is none of these.
    pub async fn another_kubelet(&self, name: &str, before: &[i32]) {
        eventually("another kubelet", || self.kubelets(name).iter().any(|pid| !before.contains(pid))).await;
    }

    pub fn node(&self, verb: &str, name: &str) {
        let data = self.dir.path().join("data");
        let asked = Command::new(BINARY)
            .args(["node", verb, name, "--data-dir"])
            .arg(data)
            .output()
            .expect("it runs");
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    }

    /// Mounts of one further node.
    pub fn mounts(&self, name: &str) -> Vec<String> {
        machine::mounts_below(&self.node_dir(name))
    }

    /// The node's own log, where a failed test shows it.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.node_dir(name).join("kubelet.log")).unwrap_or_default()
    }

    /// Ctrl-C: no container, mount or kubelet of any node is left.
    pub fn ends_clean(&mut self) {
        self.up.signal("TERM");
        self.ended_clean();
    }

    /// The same for one that was asked to end.
    pub fn ended_clean(&mut self) {
        assert!(self.up.ended().success(), "{}", self.up.log());
        assert_eq!(machine::mounts_below(self.dir.path()), Vec::<String>::new());
        assert!(["n-2", "n-3"].iter().all(|name| self.kubelets(name).is_empty()), "no kubelet is left");
        assert_eq!(machine::processes_below(self.dir.path()), Vec::new(), "nor a container");
        assert_eq!(machine::loops_below(self.dir.path()), Vec::<String>::new(), "nor a device");
    }
}

impl Drop for Up {
    #[allow(clippy::print_stderr, reason = "a failed test shows the logs of the processes under test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            ["n-2", "n-3"].into_iter().for_each(|name| eprintln!("--- {name} ---\n{}", self.log(name)));
        }
        self.up.kill();
        // Children notice that their parent has died.
        let bound = std::time::Instant::now() + support::PATIENCE;
        while ["n-2", "n-3"].iter().any(|name| !self.kubelets(name).is_empty())
            && std::time::Instant::now() < bound
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        machine::clean_below(self.dir.path());
    }
}

/// Waits until pods can be created, and the nodes are ready for them.
pub async fn ready(client: &Client, names: &[&str]) {
    let nodes: Api<Node> = Api::all(client.clone());
    for name in names {
        until(&nodes, name, "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
    }
    let account: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    until(&account, "default", "there", |found| found.is_some()).await.expect("an account");
}

/// A pod on one node, with a volume.
pub fn on_node(name: &str, claim: &str, node: &str, script: &str) -> Pod {
    let mut pod = build::pod(name).shell(script).mount(claim, "/data").grace_seconds(1).build();
    let selector = [("kubernetes.io/hostname".to_owned(), node.to_owned())];
    if let Some(spec) = &mut pod.spec {
        spec.node_selector = Some(selector.into());
    }
    pod
}

/// A pod that runs on a node with a new volume, both of this name.
pub async fn runs_with_volume(client: &Client, name: &str, node: &str) {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim(name).class("local").size("64Mi").build()).await.expect("a claim");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&pods, &on_node(name, name, node, "sleep 600")).await.expect("a pod");
    until_phase(client, name, "Running").await.expect("running");
}

/// The pod runs, and its container was never started again.
pub async fn runs_on(client: &Client, name: &str) {
    until_phase(client, name, "Running").await.expect("still running");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let status = pods.get(name).await.expect("there").status.and_then(|status| status.container_statuses);
    assert_eq!(status.unwrap_or_default()[0].restart_count, 0, "{name}");
}

/// The node is reported as stopped: not ready, and no volume in use there.
pub async fn reported_stopped(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let stopped = |node: &Node| !node::ready(node) && node::volumes_in_use(node).is_empty();
    let found = until(&nodes, name, "stopped", |found| found.is_some_and(stopped)).await;
    if let Err(why) = found {
        let node = nodes.get(name).await.expect("there");
        panic!("{why}: {} {:?}", node.name(), node.status);
    }
}

/// Looks again and again at what no watch shows, up to a bound.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let holds = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, holds).await.unwrap_or_else(|_| panic!("never: {what}"));
}
