//! Programs as the containers of a pod find things: the API server in the environment, account and authority in files.

use std::path::PathBuf;
use std::process::Command;

use bowline_api::{Lease, ServiceAccount};
use bowline_apiserver::certs::Authority;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenRequest;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::support::https::{get, page_with};
use crate::support::objects::until;
use crate::support::peers::peer;
use crate::support::ports::free_ports;
use crate::support::program::Program;
use crate::support::until_exists;
use crate::support::upstream::client_of;

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");
const NAMESPACE: &str = "storage";
const LEASE: &str = "external-attacher-leader-local-csi-bowline-dev";
/// Mounts the first word where accounts are, for the program alone, and becomes the program. Copies of other tests' volumes are
/// unmounted first: they would keep the devices of these busy.
const CONTAINER: &str = r#"
set -e
grep ' - [^ ]* /dev/loop' /proc/self/mountinfo | cut -d ' ' -f 5 | while read -r volume; do umount -l "$volume" || true; done
mount -t tmpfs tmpfs /run
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$1" /var/run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"#;

/// Our API server as a process: it issues tokens.
struct Cluster {
    dir: tempfile::TempDir,
    port: u16,
    _server: Program,
}

impl Cluster {
    async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("a directory");
        let [port] = free_ports();
        let data = dir.path().join("data");
        let authority = Authority::open(&data, Timestamp::now()).expect("its authority");
        let account = dir.path().join("account");
        std::fs::create_dir(&account).expect("a directory");
        std::fs::write(account.join("ca.crt"), authority.certificate()).expect("written");
        std::fs::write(account.join("namespace"), NAMESPACE).expect("written");
        let secure = format!("--secure-port={port}");
        let words = ["kube-apiserver", "--data-dir", data.to_str().expect("text"), &secure];
        let server = Program::start(dir.path(), "kube-apiserver", BINARY, &words);
        until_exists(&data.join("kubeconfig")).await;
        let cluster = Self { dir, port, _server: server };
        cluster.kubectl(&["create", "namespace", NAMESPACE]);
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn client(&self) -> kube::Client {
        client_of(&self.path("data/kubeconfig")).await
    }

    fn kubectl(&self, words: &[&str]) {
        let mut command = Command::new(peer("kubectl"));
        command.env("KUBECONFIG", self.path("data/kubeconfig")).env("KUBECACHEDIR", self.path("cache"));
        let answer = command.args(words).output().expect("kubectl runs");
        assert!(answer.status.success(), "kubectl {words:?}: {}", String::from_utf8_lossy(&answer.stderr));
    }

    /// Exactly the rights that we print for a program, and its account.
    fn grant(&self, words: &[&str]) {
        let mut command = Command::new(BINARY);
        let printed = command.arg("rbac").args(words).args(["--namespace", NAMESPACE]).output();
        let file = self.path("rbac.yaml");
        std::fs::write(&file, printed.expect("it runs").stdout).expect("written");
        self.kubectl(&["apply", "--filename", file.to_str().expect("text")]);
    }

    async fn token(&self, namespace: &str, account: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let request = TokenRequest::default();
        let issued = accounts.create_token_request(account, &PostParams::default(), &request).await;
        issued.expect("a token").status.expect("a token").token.expect("a token")
    }

    /// Replaces the mounted token as a kubelet does: at once and as a whole.
    async fn mount_token(&self, account: &str) -> String {
        let token = self.token(NAMESPACE, account).await;
        std::fs::write(self.path("account/next"), &token).expect("written");
        std::fs::rename(self.path("account/next"), self.path("account/token")).expect("renamed");
        token
    }

    fn start_in_pod(&self, name: &str, words: &[&str]) -> Program {
        let (account, port) = (self.path("account"), self.port.to_string());
        let before = ["--mount", "sh", "-c", CONTAINER, "sh", account.to_str().expect("text"), BINARY, name];
        let environment = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", &port)];
        Program::start_with(self.dir.path(), name, "unshare", &[&before, words].concat(), &environment)
    }
}

/// The account is deleted and made again, which makes every token of before invalid.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_a_pod_follows_its_rotated_token() {
    let cluster = Cluster::start().await;
    cluster.grant(&["csi-attacher"]);
    let old = cluster.mount_token("csi-attacher").await;
    let (socket, pool) = (cluster.path("csi.sock"), cluster.path("pool"));
    let [socket, pool] = [&socket, &pool].map(|path| path.to_str().expect("text"));
    let words = ["driver", "local", "--endpoint", socket, "--pool", pool, "--node-id", "node"];
    let _driver = Program::start(cluster.dir.path(), "driver", BINARY, &words);
    let address = format!("--csi-address={socket}");
    let words = [
        &address,
        "--leader-election",
        "--leader-election-lease-duration=120s",
        "--leader-election-renew-deadline=100s",
        "--leader-election-retry-period=1s",
    ];
    let mut attacher = cluster.start_in_pod("csi-attacher", &words);
    let leases: Api<Lease> = Api::namespaced(cluster.client().await, NAMESPACE);
    let renewed_after = |time: Timestamp| {
        move |lease: Option<&Lease>| {
            let spec = lease.and_then(|lease| lease.spec.as_ref());
            spec.and_then(|spec| spec.renew_time.as_ref()).is_some_and(|renewed| renewed.0 > time)
        }
    };
    until(&leases, LEASE, "held", renewed_after(Timestamp::UNIX_EPOCH)).await.expect("held");

    cluster.kubectl(&["delete", "serviceaccount", "csi-attacher", "--namespace", NAMESPACE]);
    cluster.grant(&["csi-attacher"]);
    let server = format!("https://127.0.0.1:{}", cluster.port);
    assert_eq!(get(&server, &json!({"token": old}), "/api").await.0, Some(401), "the old token counts");
    cluster.mount_token("csi-attacher").await;
    until(&leases, LEASE, "renewed", renewed_after(Timestamp::now())).await.expect("renewed");
    assert!(attacher.end().success());
}

/// Neither --authentication-kubeconfig nor --authorization-kubeconfig is given.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_program_in_a_pod_are_reviewed_as_its_account() {
    let cluster = Cluster::start().await;
    cluster.grant(&["kube-controller-manager", "--controllers=pv-protection"]);
    cluster.mount_token("kube-controller-manager").await;
    for account in ["scraper", "stranger"] {
        cluster.kubectl(&["create", "serviceaccount", account]);
    }
    cluster.kubectl(&["create", "clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics"]);
    let binding = ["create", "clusterrolebinding", "scraper", "--clusterrole=scraper"];
    cluster.kubectl(&[&binding[..], &["--serviceaccount=default:scraper"]].concat());
    let [port] = free_ports();
    let port = format!("--secure-port={port}");
    let namespace = format!("--leader-elect-resource-namespace={NAMESPACE}");
    let words = ["--bind-address=127.0.0.1", "--controllers=pv-protection", &port, &namespace];
    let mut manager = cluster.start_in_pod("kube-controller-manager", &words);
    let server = format!("https://127.0.0.1:{}", port.trim_start_matches("--secure-port="));
    page_with(&server, "/healthz", "ok").await;
    let [scraper, stranger] = ["scraper", "stranger"].map(|account| cluster.token("default", account));
    let (scraper, stranger) = (json!({"token": scraper.await}), json!({"token": stranger.await}));
    let (status, page) = get(&server, &scraper, "/metrics").await;
    assert!(status == Some(200) && page.contains("process_start_time_seconds"), "{status:?} {page}");
    for (who, expected) in [(stranger, 403), (json!({}), 403), (json!({"token": "wrong"}), 401)] {
        assert_eq!(get(&server, &who, "/metrics").await.0, Some(expected), "{who}");
    }
    assert!(manager.end().success());
}
