//! Goal: a kubelet runs as a process of its own, with a node's own certificate and no more rights than that gives.
//! Method: API server, controller manager, scheduler, driver, provisioner, attacher, registrar and kubelet as processes; a
//! claim and a pod there and back. The kubelet ends and comes back meanwhile, and the container does not notice.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clients;
mod support;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_api::{CSIDriver, CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use bowline_api::{Lease, Meta, VolumeAttachment, build, node};
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::kubeconfig;
use bowline_machinery::client::{self, Line, Source};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use support::machine;
use support::objects::{create, delete, until, until_gone, until_phase};
use support::program::Program;

const DRIVER: &str = "local.csi.bowline.dev";
const NODE: &str = "worker-1";
const BINARY: &str = env!("CARGO_BIN_EXE_bowline");

/// Programs of a cluster in one scratch directory.
struct Setup {
    dir: tempfile::TempDir,
    server: String,
    authority: Authority,
    _apiserver: Program,
}

impl Setup {
    async fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("a directory");
        let [port] = support::ports::free_ports();
        let (data, port_flag) = (dir.path().join("data"), format!("--secure-port={port}"));
        let authority = Authority::open(&data, jiff::Timestamp::now()).expect("its authority");
        let words = ["kube-apiserver", "--data-dir", data.to_str().expect("text"), &port_flag];
        let kubelets = clients::of_api_server(dir.path(), &authority);
        let words = [words.as_slice(), &kubelets.each_ref().map(String::as_str)].concat();
        let apiserver = Program::start(dir.path(), "kube-apiserver", BINARY, &words);
        support::until_exists(&data.join("kubeconfig")).await;
        std::fs::write(dir.path().join("ca.crt"), authority.certificate()).expect("written");
        let server = format!("https://127.0.0.1:{port}");
        Self { dir, server, authority, _apiserver: apiserver }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("kubelet")
    }

    fn socket(&self) -> PathBuf {
        self.root().join("plugins/local/csi.sock")
    }

    async fn client(&self) -> Client {
        let disk =
            bowline_host::real::host(bowline_host::real::RealConfig::new("/nonexistent")).expect("host").disk;
        let source = Source::File(self.path("data/kubeconfig"));
        client::connect(&source, Line::default(), disk).await.expect("a client")
    }

    /// A kubeconfig with a certificate of this user in this group.
    fn credentials(&self, name: &str, user: &str, group: &str) -> PathBuf {
        let issued = self.authority.issue_client(user, group, jiff::Timestamp::now()).expect("a certificate");
        let dir = self.path(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("kubeconfig");
        std::fs::write(&path, kubeconfig(&self.server, &self.authority, &issued)).expect("written");
        path
    }

    fn start(&self, name: &str, words: &[&str]) -> Program {
        Program::start(self.dir.path(), name, BINARY, &[&[name], words].concat())
    }

    /// As the administrator.
    fn start_as_admin(&self, name: &str, words: &[&str]) -> Program {
        let kubeconfig = format!("--kubeconfig={}", self.path("data/kubeconfig").display());
        self.start(name, &[&[kubeconfig.as_str()], words].concat())
    }

    /// With a port that the API server is asked about.
    fn start_controllers(&self, port: u16) -> Program {
        let [authentication, authorization] = ["authentication", "authorization"]
            .map(|what| format!("--{what}-kubeconfig={}", self.path("data/kubeconfig").display()));
        let root_ca = format!("--root-ca-file={}", self.path("ca.crt").display());
        let port = format!("--secure-port={port}");
        let words = [&authentication, &authorization, &root_ca, &port].map(String::as_str);
        let local = ["--leader-elect=false", "--bind-address=127.0.0.1"];
        self.start_as_admin("kube-controller-manager", &[words.as_slice(), &local].concat())
    }

    fn start_driver(&self) -> Program {
        let (socket, pool) = (self.socket(), self.path("pool"));
        std::fs::create_dir_all(socket.parent().expect("a directory")).expect("created");
        let endpoint = ["local", "--endpoint", socket.to_str().expect("text")];
        let node = ["--pool", pool.to_str().expect("text"), "--node-id", NODE];
        self.start("driver", &[endpoint.as_slice(), &node].concat())
    }

    fn start_registrar(&self) -> Program {
        let socket = self.socket();
        let words = [
            format!("--csi-address={}", socket.display()),
            format!("--kubelet-registration-path={}", socket.display()),
            format!("--plugin-registration-path={}", self.root().join("plugins_registry").display()),
            "--timeout=30s".to_owned(),
        ];
        self.start("csi-node-driver-registrar", &words.each_ref().map(String::as_str))
    }

    fn start_kubelet(&self, health: u16, port: u16) -> Program {
        let kubeconfig = self.credentials("node", &format!("system:node:{NODE}"), "system:nodes");
        let config = self.path("kubelet.yaml");
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzPort: {health}\nport: 1\n\
             authentication: {{x509: {{clientCAFile: {}}}}}\n",
            self.path("ca.crt").display()
        );
        std::fs::write(&config, text).expect("written");
        let words = [
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--root-dir={}", self.root().display()),
            format!("--hostname-override={NODE}"),
            format!("--port={port}"),
            "--node-ip=127.0.0.7".to_owned(),
            "--node-labels=example.com/rack=r1".to_owned(),
            "--register-with-taints=example.com/new=yes:PreferNoSchedule".to_owned(),
            "-v=2".to_owned(),
        ];
        self.start("kubelet", &words.each_ref().map(String::as_str))
    }

    fn images(&self) -> usize {
        let real = |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        std::fs::read_dir(self.path("pool/volumes")).map_or(0, |all| all.flatten().filter(real).count())
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        machine::clean_below(self.dir.path());
    }
}

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
    assert_eq!(setup.images(), 0, "PROV-2");
    assert_eq!(machine::mounts_below(setup.dir.path()), Vec::<String>::new());
    assert_eq!([log, refusals(&kubelet.log())].concat(), Vec::<String>::new(), "within its rights");
    assert!(kubelet.end().success());
    for program in &mut programs {
        assert!(program.end().success(), "{}", program.name);
    }
}

/// `bowline up --nodes 3` in a scratch directory.
struct Up {
    dir: tempfile::TempDir,
    port: u16,
    up: Program,
}

fn launch(dir: &Path, port: u16) -> Program {
    let flags = [
        format!("--listen=127.0.0.1:{port}"),
        format!("--data-dir={}", dir.join("data").display()),
        format!("--kubelet-dir={}", dir.join("kubelet").display()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let words = [&["up", "--nodes=3", "--node-name=n"], flags.as_slice()].concat();
    Program::start(dir, "up", BINARY, &words)
}

impl Up {
    async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("a directory");
        let [port] = support::ports::free_ports();
        let up = launch(dir.path(), port);
        support::until_exists(&dir.path().join("data/kubeconfig")).await;
        Self { dir, port, up }
    }

    /// Killed, and started again on the same data.
    fn restart(&mut self) {
        self.up.kill();
        self.up = launch(self.dir.path(), self.port);
    }

    async fn client(&self) -> Client {
        let host = bowline_host::real::host(bowline_host::real::RealConfig::new("/nonexistent"));
        let source = Source::File(self.dir.path().join("data/kubeconfig"));
        client::connect(&source, Line::default(), host.expect("host").disk).await.expect("a client")
    }

    /// Process ids of a node's kubelet.
    fn kubelets(&self, name: &str) -> Vec<i32> {
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

    fn node(&self, verb: &str, name: &str) {
        let data = self.dir.path().join("data");
        let asked = Command::new(BINARY)
            .args(["node", verb, name, "--data-dir"])
            .arg(data)
            .output()
            .expect("it runs");
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    }

    /// Mounts of one further node.
    fn mounts(&self, name: &str) -> Vec<String> {
        machine::mounts_below(&self.dir.path().join("data/nodes").join(name))
    }

    /// The node's own log, where a failed test shows it.
    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join("data/nodes").join(name).join("kubelet.log"))
            .unwrap_or_default()
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

/// A pod on one node, with a volume.
fn on_node(name: &str, claim: &str, node: &str, script: &str) -> Pod {
    let mut pod = build::pod(name).shell(script).mount(claim, "/data").grace_seconds(1).build();
    let selector = [("kubernetes.io/hostname".to_owned(), node.to_owned())];
    if let Some(spec) = &mut pod.spec {
        spec.node_selector = Some(selector.into());
    }
    pod
}

/// A volume for one node at a time goes from the second node to the third, with what is on it.
async fn moves_with_its_volume(claims: &Api<PersistentVolumeClaim>, pods: &Api<Pod>, client: &Client) {
    create(claims, &build::claim("disk").class("local").size("64Mi").build()).await.expect("a claim");
    for (node, script) in
        [("n-2", "echo here | tee /data/file; sleep 600"), ("n-3", "grep here /data/file && sleep 600")]
    {
        create(pods, &on_node("q", "disk", node, script)).await.expect("a pod");
        until_phase(client, "q", "Running").await.unwrap_or_else(|why| panic!("{node}: {why}"));
        // Logs come from the kubelet of that node, over TLS with certificates on both sides.
        let mut written = pods.logs("q", &kube::api::LogParams::default()).await.expect("logs");
        while !written.contains("here") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            written = pods.logs("q", &kube::api::LogParams::default()).await.expect("logs");
        }
        delete(pods, "q").await.expect("deleted");
        until_gone(pods, "q").await.expect("gone");
    }
    delete(claims, "disk").await.expect("deleted");
    until_gone(claims, "disk").await.expect("gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_moves_away_from_a_node_that_is_cut_off() {
    let mut up = Up::start().await;
    let client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    for name in ["n", "n-2", "n-3"] {
        until(&nodes, name, "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
        // Each driver answers as each node.
        let csi_nodes: Api<CSINode> = Api::all(client.clone());
        let both = |found: Option<&CSINode>| found.is_some_and(|n| n.spec.drivers.len() == 2);
        until(&csi_nodes, name, "two drivers", both).await.expect("registered");
        let found = csi_nodes.get(name).await.expect("there").spec.drivers;
        assert!(found.iter().all(|driver| driver.node_id == name), "{found:?}");
    }
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = build::claim("data").class("share").access_mode("ReadWriteMany").size("1Mi").build();
    let account: Api<bowline_api::ServiceAccount> = Api::default_namespaced(client.clone());
    until(&account, "default", "there", |found| found.is_some()).await.expect("an account");
    create(&claims, &claim).await.expect("a claim");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    moves_with_its_volume(&claims, &pods, &client).await;
    create(&pods, &on_node("p", "data", "n-2", "echo kept > /data/file; sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running on the second node");
    assert!(!up.mounts("n-2").is_empty());

    up.node("cut", "n-2");
    // What an administrator does who knows that the node is gone.
    let by_force = kube::api::DeleteParams::default().grace_period(0);
    pods.delete("p", &by_force).await.expect("deleted");
    until_gone(&pods, "p").await.expect("gone");
    create(&pods, &on_node("p", "data", "n-3", "grep kept /data/file && sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running on the third node");
    assert!(!up.mounts("n-2").is_empty(), "the node that is cut off knows nothing of it");

    up.node("join", "n-2");
    until(&nodes, "n-2", "back", |found| found.is_some_and(node::ready)).await.expect("ready again");
    let left = async {
        while !up.mounts("n-2").is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, left).await.expect("it takes down what was deleted meanwhile");

    // Ctrl-C with a pod that runs: nothing stays mounted on any node.
    assert!(up.up.end().success());
    assert_eq!(machine::mounts_below(up.dir.path()), Vec::<String>::new());
    assert!(["n-2", "n-3"].iter().all(|name| up.kubelets(name).is_empty()), "no kubelet is left");
    assert_eq!(machine::processes_below(up.dir.path()), Vec::new(), "nor a container");
}

/// Looks again and again at what no watch shows, up to a bound.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let holds = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, holds).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_dies_comes_back_and_all_end_with_their_parent() {
    let mut up = Up::start().await;
    let client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    until(&nodes, "n-2", "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
    let account: Api<bowline_api::ServiceAccount> = Api::default_namespaced(client.clone());
    until(&account, "default", "there", |found| found.is_some()).await.expect("an account");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("disk").class("local").size("64Mi").build()).await.expect("a claim");
    create(&pods, &on_node("p", "disk", "n-2", "sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running");

    let before = up.kubelets("n-2");
    assert_eq!(before.len(), 1);
    let killed = Command::new("kill").args(["-KILL", &before[0].to_string()]).status().expect("kill runs");
    assert!(killed.success());
    eventually("another process", || up.kubelets("n-2").iter().any(|pid| !before.contains(pid))).await;
    create(&pods, &on_node("q", "disk", "n-2", "sleep 600")).await.expect("a pod");
    until_phase(&client, "q", "Running").await.expect("it works on");

    // The parent dies without a word: the kubelets end, the containers do not.
    let old = up.kubelets("n-2");
    up.restart();
    eventually("the next one", || up.kubelets("n-2").iter().any(|pid| !old.contains(pid))).await;
    let client = up.client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let served = async {
        while pods.get("p").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, served).await.expect("the API server is back");
    for name in ["p", "q"] {
        until_phase(&client, name, "Running").await.expect("still running");
        let status = pods.get(name).await.expect("there").status.and_then(|status| status.container_statuses);
        assert_eq!(status.unwrap_or_default()[0].restart_count, 0, "{name}");
        delete(&pods, name).await.expect("deleted");
        until_gone(&pods, name).await.expect("gone");
    }
    assert!(up.up.end().success());
    assert_eq!(machine::mounts_below(up.dir.path()), Vec::<String>::new());
    assert!(["n-2", "n-3"].iter().all(|name| up.kubelets(name).is_empty()), "no kubelet is left");
    assert_eq!(machine::processes_below(up.dir.path()), Vec::new(), "nor a container");
}

/// Containers of an earlier start run while their kubelet starts again: Ctrl-C must end them, too.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_a_kubelet_starts_leaves_nothing() {
    let mut up = Up::start().await;
    let client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    until(&nodes, "n-2", "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
    let account: Api<bowline_api::ServiceAccount> = Api::default_namespaced(client.clone());
    until(&account, "default", "there", |found| found.is_some()).await.expect("an account");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("disk").class("local").size("64Mi").build()).await.expect("a claim");
    create(&pods, &on_node("p", "disk", "n-2", "sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running");
    let old = up.kubelets("n-2");
    up.restart();
    eventually("the next one", || up.kubelets("n-2").iter().any(|pid| !old.contains(pid))).await;
    assert!(up.up.end().success());
    assert_eq!(machine::mounts_below(up.dir.path()), Vec::<String>::new());
    assert!(["n-2", "n-3"].iter().all(|name| up.kubelets(name).is_empty()), "no kubelet is left");
    assert_eq!(machine::processes_below(up.dir.path()), Vec::new(), "nor a container");
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
