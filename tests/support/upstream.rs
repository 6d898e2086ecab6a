//! Upstream's kube-apiserver and an etcd, with the Node and RBAC authorizers and NodeRestriction: who runs on it has the
//! rights that a cluster gives, and every request that is refused for want of rights is on record.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bowline_api::ServiceAccount;
use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_host::real::{RealConfig, host};
use bowline_machinery::client::{self, Line, Source};
use k8s_openapi::api::authentication::v1::TokenRequest;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::PATIENCE;
use super::apiserver::{credentials, etcd, kube_apiserver, scratch};
use super::peers::peer;
use super::ports::free_ports;
use super::program::Program;

/// Where the accounts of sidecars are, and their leases.
pub const NAMESPACE: &str = "kube-system";
/// Who asked for what. Of writes that concern volumes also what they asked for and what came of it.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: '', resources: [persistentvolumes, persistentvolumes/status, persistentvolumeclaims, persistentvolumeclaims/status]}
  - {group: snapshot.storage.k8s.io}
  - {group: groupsnapshot.storage.k8s.io}
- level: Request
  verbs: [create, update, patch, delete]
  resources: [{group: '', resources: [events]}, {group: coordination.k8s.io, resources: [leases]}]
- {level: Metadata}
";

pub struct UpstreamServer {
    authority: Authority,
    address: String,
    etcd_port: u16,
    port: u16,
    flags: Vec<String>,
    admin: PathBuf,
    server: Program,
    _etcd: Program,
    pub dir: tempfile::TempDir,
}

impl UpstreamServer {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with further flags of kube-apiserver.
    pub async fn start_with(flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let dir = scratch();
        let [etcd_port, etcd_peer, port] = free_ports();
        let (authority, admin) = credentials(dir.path(), port);
        std::fs::write(dir.path().join("audit.yaml"), AUDIT_POLICY).expect("the audit policy");
        let etcd = run(dir.path(), "etcd", &etcd(dir.path(), etcd_port, etcd_peer));
        let server = api_server(dir.path(), etcd_port, port, &flags);
        let address = format!("https://127.0.0.1:{port}");
        let mut started =
            Self { authority, address, etcd_port, port, flags, admin, server, _etcd: etcd, dir };
        started.ready().await;
        started
    }

    async fn ready(&mut self) {
        let (client, patience) = (self.client().await, Instant::now() + PATIENCE);
        loop {
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            if client.request_text(request).await.is_ok() {
                return;
            }
            assert!(self.server.is_running(), "kube-apiserver ended");
            assert!(Instant::now() < patience, "kube-apiserver is not ready in time");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// As `kill -9` does it; etcd goes on.
    pub fn stop(&mut self) {
        self.server.kill();
    }

    /// Again after [`UpstreamServer::stop`], at the same address.
    pub async fn start_again(&mut self) {
        self.server = api_server(self.dir.path(), self.etcd_port, self.port, &self.flags);
        self.ready().await;
    }

    pub fn kubectl(&self, words: &[&str]) {
        let mut command = Command::new(peer("kubectl"));
        command.env("KUBECONFIG", &self.admin).env("KUBECACHEDIR", self.dir.path().join("cache"));
        let answer = command.args(words).output().expect("kubectl runs");
        assert!(answer.status.success(), "kubectl {words:?}: {}", String::from_utf8_lossy(&answer.stderr));
    }

    /// The rights that a sidecar is deployed with (`tests/peers/rbac`).
    pub fn grant(&self, sidecar: &str) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/rbac");
        self.kubectl(&["apply", "--filename", &format!("{folder}/{sidecar}.yaml")]);
    }

    /// The administrator's.
    pub async fn client(&self) -> Client {
        client_of(&self.admin).await
    }

    /// A kubeconfig with a certificate for this user.
    pub fn user(&self, user: &str, group: &str) -> PathBuf {
        self.user_at(user, group, jiff::Timestamp::now())
    }

    /// The same with a certificate of another day.
    pub fn user_at(&self, user: &str, group: &str, day: jiff::Timestamp) -> PathBuf {
        let path = self.dir.path().join(format!("{}.kubeconfig", user.replace(':', "-")));
        let certificate = self.authority.issue_client(user, group, day).expect("a certificate");
        write_kubeconfig(&path, &self.address, &self.authority, &certificate).expect("a kubeconfig");
        path
    }

    /// A kubeconfig with a token of a service account, in a file as in a pod.
    pub async fn account(&self, name: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, NAMESPACE);
        let request = TokenRequest::default();
        let issued = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let token = issued.expect("a token").status.and_then(|status| status.token).expect("a token");
        let (file, path) = (
            self.dir.path().join(format!("{name}.token")),
            self.dir.path().join(format!("{name}.kubeconfig")),
        );
        std::fs::write(&file, token).expect("write the token");
        let authority = self.dir.path().join("ca.crt");
        let text = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.address, "certificate-authority": authority}}],
            "users": [{"name": "u", "user": {"tokenFile": file}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(&path, text.to_string()).expect("write a kubeconfig");
        path
    }

    /// Requests that were refused because the user has no right to make them, each once, as `user verb resource`. One that
    /// is allowed a moment later does not count: the authorizers follow roles and pods with caches of their own.
    pub fn refusals(&self) -> Vec<String> {
        let events = self.audited();
        let is_refused = |event: &Value| event["responseStatus"]["code"] == 403;
        let about = |event: &Value| {
            let object = &event["objectRef"];
            (told(event), object["namespace"].clone(), object["name"].clone())
        };
        let allowed_later = |at: usize| {
            let wanted = about(&events[at]);
            events[at..].iter().any(|event| !is_refused(event) && about(event) == wanted)
        };
        let refused = (0..events.len()).filter(|at| is_refused(&events[*at]) && !allowed_later(*at));
        let mut refused: Vec<String> = refused.map(|at| told(&events[at])).collect();
        refused.sort();
        refused.dedup();
        refused
    }

    /// The audit log.
    pub fn audited(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.dir.path().join("audit.log")).expect("the audit log");
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// All verbs on resources that a user was allowed, as `verb resource`.
    pub fn used_by(&self, user: &str) -> Vec<String> {
        let allowed = |event: &Value| {
            event["user"]["username"] == user
                && event["responseStatus"]["code"] != 403
                && event["objectRef"]["resource"].is_string()
        };
        let mut used: Vec<String> =
            self.audited().iter().filter(|event| allowed(event)).map(verb_and_resource).collect();
        used.sort();
        used.dedup();
        used
    }
}

pub async fn client_of(kubeconfig: &Path) -> Client {
    let host = host(RealConfig::new(kubeconfig.parent().expect("a folder"))).expect("this machine");
    let source = Source::File(kubeconfig.to_owned());
    client::connect(&source, Line::default(), host.disk).await.expect("client from the kubeconfig")
}

fn told(event: &Value) -> String {
    let user = event["user"]["username"].as_str().unwrap_or_default();
    format!("{user} {}", verb_and_resource(event))
}

fn verb_and_resource(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (object, verb) = (&event["objectRef"], text(&event["verb"]));
    match (text(&object["resource"]), text(&object["subresource"])) {
        (resource, _) if resource.is_empty() => format!("{verb} {}", text(&event["requestURI"])),
        (resource, part) if part.is_empty() => format!("{verb} {resource}"),
        (resource, part) => format!("{verb} {resource}/{part}"),
    }
}

fn api_server(dir: &Path, etcd: u16, port: u16, flags: &[String]) -> Program {
    let mut command = kube_apiserver(dir, etcd, port);
    command.args(flags);
    command.arg("--enable-admission-plugins=NodeRestriction");
    command.arg(format!("--audit-policy-file={}", dir.join("audit.yaml").display()));
    command.arg(format!("--audit-log-path={}", dir.join("audit.log").display()));
    run(dir, "kube-apiserver", &command)
}

fn run(dir: &Path, name: &str, command: &Command) -> Program {
    let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
    Program::start(dir, name, command.get_program(), &words)
}
