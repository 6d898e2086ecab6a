//! Programs of a cluster, each a process of its own.

use std::path::PathBuf;

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::kubeconfig;
use bowline_machinery::client::{self, Line, Source};
use kube::Client;

use super::support::program::Program;
use super::support::{self, machine};
use super::{BINARY, NODE, clients};

/// Programs of a cluster in one scratch directory.
pub struct Setup {
    pub dir: tempfile::TempDir,
    server: String,
    pub authority: Authority,
    _apiserver: Program,
}

impl Setup {
    pub async fn new() -> Self {
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("kubelet")
    }

    pub fn socket(&self) -> PathBuf {
        self.root().join("plugins/local/csi.sock")
    }

    pub async fn client(&self) -> Client {
        let disk =
            bowline_host::real::host(bowline_host::real::RealConfig::new("/nonexistent")).expect("host").disk;
        let source = Source::File(self.path("data/kubeconfig"));
        client::connect(&source, Line::default(), disk).await.expect("a client")
    }

    /// A kubeconfig with a certificate of this user in this group.
    pub fn credentials(&self, name: &str, user: &str, group: &str) -> PathBuf {
        let issued = self.authority.issue_client(user, group, jiff::Timestamp::now()).expect("a certificate");
        let dir = self.path(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("kubeconfig");
        std::fs::write(&path, kubeconfig(&self.server, &self.authority, &issued)).expect("written");
        path
    }

    pub fn start(&self, name: &str, words: &[&str]) -> Program {
        Program::start(self.dir.path(), name, BINARY, &[&[name], words].concat())
    }

    /// As the administrator.
    pub fn start_as_admin(&self, name: &str, words: &[&str]) -> Program {
        let kubeconfig = format!("--kubeconfig={}", self.path("data/kubeconfig").display());
        self.start(name, &[&[kubeconfig.as_str()], words].concat())
    }

    /// With a port that the API server is asked about.
    pub fn start_controllers(&self, port: u16) -> Program {
        let [authentication, authorization] = ["authentication", "authorization"]
            .map(|what| format!("--{what}-kubeconfig={}", self.path("data/kubeconfig").display()));
        let root_ca = format!("--root-ca-file={}", self.path("ca.crt").display());
        let clients = format!("--client-ca-file={}", self.path("ca.crt").display());
        let port = format!("--secure-port={port}");
        let words = [&authentication, &authorization, &root_ca, &clients, &port].map(String::as_str);
        let local = ["--leader-elect=false", "--bind-address=127.0.0.1"];
        self.start_as_admin("kube-controller-manager", &[words.as_slice(), &local].concat())
    }

    pub fn start_driver(&self) -> Program {
        let (socket, pool) = (self.socket(), self.path("pool"));
        std::fs::create_dir_all(socket.parent().expect("a directory")).expect("created");
        let endpoint = ["local", "--endpoint", socket.to_str().expect("text")];
        let node = ["--pool", pool.to_str().expect("text"), "--node-id", NODE];
        self.start("driver", &[endpoint.as_slice(), &node].concat())
    }

    pub fn start_registrar(&self) -> Program {
        let socket = self.socket();
        let words = [
            format!("--csi-address={}", socket.display()),
            format!("--kubelet-registration-path={}", socket.display()),
            format!("--plugin-registration-path={}", self.root().join("plugins_registry").display()),
            "--timeout=30s".to_owned(),
        ];
        self.start("csi-node-driver-registrar", &words.each_ref().map(String::as_str))
    }

    pub fn start_kubelet(&self, health: u16, port: u16) -> Program {
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

    pub fn images(&self) -> usize {
        let real = |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        std::fs::read_dir(self.path("pool/volumes")).map_or(0, |all| all.flatten().filter(real).count())
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        machine::clean_below(self.dir.path());
    }
}
