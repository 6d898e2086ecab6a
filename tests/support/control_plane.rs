//! Our API server alone in this process, and upstream's programs that work on it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bowline::apiserver::{Place, Serving, open, server};
use bowline_apiserver::auth::Settings;
use bowline_apiserver::kinds::plugins::Plugins;
use bowline_host::real::{RealConfig, host};
use bowline_machinery::client::{self, Line, Source};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::peers::peer;

/// An API server with a kubeconfig for its administrator. Ends when it is dropped.
pub struct ControlPlane {
    dir: tempfile::TempDir,
    _stop: DropGuard,
}

impl ControlPlane {
    pub async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
        let host = host(RealConfig::new(dir.path())).expect("this machine");
        let store = open(Place::Directory(dir.path().join("store"))).await.expect("a store");
        let server = server(store, &host, Settings::default(), &Plugins::default()).await.expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stop = CancellationToken::new();
        let kubeconfig = dir.path().join("kubeconfig");
        Serving::start(server, listener, dir.path(), None, &kubeconfig, stop.clone()).await.expect("serving");
        Self { dir, _stop: stop.drop_guard() }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub async fn client(&self) -> kube::Client {
        let host = host(RealConfig::new(self.dir.path())).expect("this machine");
        let source = Source::File(self.kubeconfig());
        client::connect(&source, Line::default(), host.disk).await.expect("client from the kubeconfig")
    }
}

/// One of upstream's programs. Ends when it is dropped; its log is shown if the test fails.
pub struct Upstream {
    name: String,
    log: PathBuf,
    _child: Child,
}

impl Upstream {
    /// Without leader election and ports, which only cost time here.
    pub fn start(plane: &ControlPlane, name: &str, flags: &[&str]) -> Self {
        let log = plane.dir.path().join(format!("{name}.log"));
        let out = std::fs::File::create(&log).expect("a log");
        let child = Command::new(peer(name))
            .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
            .args(["--leader-elect=false", "--secure-port=0", "--v=2"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .expect("upstream's program starts");
        Self { name: name.into(), log, _child: child }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = text.lines().rev().take(40).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            // Standard error of a failing test is where people look.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("--- {} ---\n{}\n", self.name, last.join("\n")).as_bytes(),
            );
        }
    }
}
