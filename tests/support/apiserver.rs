//! An API server on its own, ours or upstream's, each in a scratch directory and gone with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;

use super::PATIENCE;
use super::collector::Collector;
use super::peers::peer;
use super::ports::free_ports;

/// Lines of a log that a failure shows.
const LOG_LINES: usize = 30;
/// Beside upstream's server: a garbage collector as beside ours, and what ours does itself.
const CONTROLLERS: &str =
    "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller";
/// What `bowline kube-apiserver` gives its clusters too, so that addresses have the same width in tables.
const SERVICE_RANGE: &str = "10.0.0.0/24";

pub struct ApiServer {
    pub scratch: tempfile::TempDir,
    pub kubeconfig: PathBuf,
    processes: Vec<Child>,
    collector: Option<Collector>,
}

impl ApiServer {
    /// `bowline kube-apiserver` with these further flags, and our garbage collector.
    pub fn ours(flags: &[String]) -> Self {
        let scratch = scratch();
        let process = bowline(scratch.path(), flags);
        let kubeconfig = scratch.path().join("kubeconfig");
        let mut server = Self { scratch, kubeconfig, processes: vec![process], collector: None };
        server.wait_until_ready("bowline");
        server.collector = Some(Collector::start(server.kubeconfig.clone()));
        server
    }

    /// As `kill -9` does it.
    pub fn kill(&mut self) {
        self.processes[0].kill().expect("end the server");
        self.processes[0].wait().expect("the end of the server");
    }

    /// Ours again after its end, with the same data directory.
    pub fn restart(&mut self, flags: &[String]) {
        self.processes[0] = bowline(self.scratch.path(), flags);
        self.wait_until_ready("bowline");
    }

    /// Upstream's kube-apiserver with these further flags, an etcd of its own, and a few controllers.
    pub fn upstream(flags: &[String]) -> Self {
        let scratch = scratch();
        let [client, etcd_peer, port] = free_ports();
        let etcd = logged(&mut etcd(scratch.path(), client, etcd_peer), scratch.path(), "etcd");
        give_past(client);
        let (_, kubeconfig) = credentials(scratch.path(), port);
        let mut command = kube_apiserver(scratch.path(), client, port);
        let process = logged(command.args(flags), scratch.path(), "kube-apiserver");
        let mut server = Self { scratch, kubeconfig, processes: vec![process, etcd], collector: None };
        server.wait_until_ready("kube-apiserver");
        let controllers = logged(&mut controllers(&server.kubeconfig), server.scratch.path(), "controllers");
        server.processes.push(controllers);
        server
    }

    /// kubectl as a user of this server would run it, with a cache of its own.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(peer("kubectl"));
        command.env("KUBECONFIG", &self.kubeconfig).env("KUBECACHEDIR", self.scratch.path().join("cache"));
        command
    }

    fn says_ready(&self) -> bool {
        let answer = self.kubectl().args(["get", "--raw", "/readyz"]).output().expect("run kubectl");
        answer.status.success()
    }

    fn wait_until_ready(&mut self, name: &str) {
        let patience = Instant::now() + PATIENCE;
        loop {
            let ended = self.processes[0].try_wait().expect("state of the server");
            // Ours writes it shortly before it answers; kubectl costs more than a look at a file.
            if self.kubeconfig.exists() && self.says_ready() {
                return;
            }
            let log = log(self.scratch.path(), name);
            assert!(ended.is_none(), "{name} ended with {ended:?}:\n{log}");
            assert!(Instant::now() < patience, "{name} is not ready in time:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.collector.take());
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn bowline(scratch: &Path, flags: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["kube-apiserver", "--secure-port", "0", "--data-dir"]).arg(scratch).args(flags);
    logged(&mut command, scratch, "bowline")
}

/// The data directory as well as the place of logs; one that is open to others and has files would be refused.
pub(super) fn scratch() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().prefix("bowline-api-").permissions(private).tempdir().expect("scratch directory")
}

fn logged(command: &mut Command, scratch: &Path, name: &str) -> Child {
    let log = std::fs::File::create(scratch.join(format!("{name}.log"))).expect("log file");
    let errors = log.try_clone().expect("log file");
    let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    child.unwrap_or_else(|error| panic!("start {name}: {error}"))
}

fn log(scratch: &Path, name: &str) -> String {
    let log = std::fs::read_to_string(scratch.join(format!("{name}.log"))).expect("the server's log");
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

pub(super) fn etcd(scratch: &Path, client: u16, peers: u16) -> Command {
    let (client, peers) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peers}"));
    let mut command = Command::new(peer("etcd"));
    command.arg("--data-dir").arg(scratch.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("default={peers}"), "--unsafe-no-fsync"]);
    command
}

/// Upstream's server knows nothing of what was before its start: only with an etcd that has a past is there something
/// for its clients to be too late for.
fn give_past(client: u16) {
    let patience = Instant::now() + PATIENCE;
    let mut written = 0;
    while written < 3 {
        if put(client).is_ok_and(|answer| answer.contains("\"revision\"")) {
            written += 1;
        } else {
            assert!(Instant::now() < patience, "etcd takes no write in time");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn put(client: u16) -> std::io::Result<String> {
    const BODY: &str = r#"{"key":"cGFzdA==","value":"cGFzdA=="}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", client))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "POST /v3/kv/put HTTP/1.0\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Certificates from an authority made on the spot, keys of service accounts, the administrator's kubeconfig.
pub(super) fn credentials(scratch: &Path, port: u16) -> (Authority, PathBuf) {
    let now = jiff::Timestamp::now();
    let authority = Authority::ephemeral(now).expect("an authority");
    let server = authority.issue_server(&[], now).expect("the server's certificate");
    let accounts = authority.issue_client("service-accounts", "", now).expect("keys of service accounts");
    let write = |name: &str, text: &str| std::fs::write(scratch.join(name), text).expect("write a key");
    write("ca.crt", authority.certificate());
    write("server.crt", &server.certificate);
    write("server.key", &server.key);
    write("accounts.crt", &accounts.certificate);
    write("accounts.key", &accounts.key);
    let admin = authority.issue_admin(now).expect("the administrator's certificate");
    let kubeconfig = scratch.join("kubeconfig");
    write_kubeconfig(&kubeconfig, &format!("https://127.0.0.1:{port}"), &authority, &admin)
        .expect("write the kubeconfig");
    (authority, kubeconfig)
}

pub(super) fn kube_apiserver(scratch: &Path, etcd: u16, port: u16) -> Command {
    let file = |name: &str| scratch.join(name).display().to_string();
    let flags = [
        ("etcd-servers", format!("http://127.0.0.1:{etcd}")),
        ("bind-address", "127.0.0.1".into()),
        ("advertise-address", "127.0.0.1".into()),
        ("secure-port", port.to_string()),
        ("tls-cert-file", file("server.crt")),
        ("tls-private-key-file", file("server.key")),
        ("client-ca-file", file("ca.crt")),
        ("service-account-issuer", "https://kubernetes.default.svc".into()),
        ("service-account-key-file", file("accounts.crt")),
        ("service-account-signing-key-file", file("accounts.key")),
        ("service-cluster-ip-range", SERVICE_RANGE.into()),
        ("authorization-mode", "Node,RBAC".into()),
        ("endpoint-reconciler-type", "none".into()),
    ];
    let mut command = Command::new(peer("kube-apiserver"));
    command.args(flags.map(|(name, value)| format!("--{name}={value}")));
    command
}

fn controllers(kubeconfig: &Path) -> Command {
    let mut command = Command::new(peer("kube-controller-manager"));
    command.arg("--kubeconfig").arg(kubeconfig).arg(format!("--controllers={CONTROLLERS}"));
    command.args(["--leader-elect=false", "--secure-port=0", "--concurrent-gc-syncs=2"]);
    command
}
