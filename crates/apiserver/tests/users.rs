//! Different users at the other end of real connections: certificates, tokens, `kubectl auth`, `kubectl --as`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use bowline_apiserver::auth::token::{SigningKey, TokenSettings};
use bowline_apiserver::auth::{Settings, StaticTokens};
use bowline_apiserver::certs::{Authority, Credentials};
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_apiserver::{Store, tls};
use bowline_host::Clock;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

struct Cluster {
    dir: tempfile::TempDir,
    address: String,
    authority: Authority,
    shutdown: CancellationToken,
}

impl Cluster {
    /// A server that trusts its own authority and another one, with tokens of both kinds.
    async fn start(other: &Authority) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now = common::Now.now();
        let authority = Authority::ephemeral(now).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let trusted = [authority.certificate(), other.certificate()];
        let config = tls::config_trusting(&trusted, &authority.issue_server(&[], now).unwrap()).unwrap();
        let tokens = dir.path().join("tokens.csv");
        std::fs::write(&tokens, "fixed,robot,7,\"dev,ops\"\n").unwrap();
        let settings = Settings {
            static_tokens: StaticTokens::read(&tokens).unwrap(),
            tokens: Some(TokenSettings {
                issuers: vec!["https://kubernetes.default.svc".into()],
                audiences: Vec::new(),
                signing: SigningKey::ephemeral().unwrap(),
                verifying: Vec::new(),
                max_expiration_seconds: None,
                extend_expiration: true,
                jwks_uri: format!("{address}/openid/v1/jwks"),
            }),
            ..Settings::default()
        };
        let server = common::server_with(Store::memory(), settings).await;
        let shutdown = CancellationToken::new();
        tokio::spawn(tls::serve(listener, server, config, shutdown.clone()));
        Self { dir, address, authority, shutdown }
    }

    fn kubeconfig(&self, name: &str, client: &Credentials) -> PathBuf {
        let path = self.dir.path().join(name);
        write_kubeconfig(&path, &self.address, &self.authority, client).unwrap();
        path
    }

    /// Whether it succeeded, and all it said.
    async fn kubectl(&self, kubeconfig: &Path, arguments: &str) -> (bool, String) {
        let mut command = Command::new(common::peers::peer("kubectl"));
        command.env("KUBECONFIG", kubeconfig).arg("--cache-dir").arg(self.dir.path().join("cache"));
        command.args(arguments.split_whitespace()).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    async fn ok(&self, kubeconfig: &Path, arguments: &str) -> String {
        let (success, text) = self.kubectl(kubeconfig, arguments).await;
        assert!(success, "kubectl {arguments}: {text}");
        text
    }

    async fn refused(&self, kubeconfig: &Path, arguments: &str, why: &str) {
        let (success, text) = self.kubectl(kubeconfig, arguments).await;
        assert!(!success && text.contains(why), "kubectl {arguments}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_what() {
    let now = common::Now.now();
    let (other, stranger) = (Authority::ephemeral(now).unwrap(), Authority::ephemeral(now).unwrap());
    let cluster = Arc::new(Cluster::start(&other).await);
    let admin = cluster.kubeconfig("admin", &cluster.authority.issue_admin(now).unwrap());
    let ann = cluster.kubeconfig("ann", &other.issue_client("ann", "dev", now).unwrap());
    let eve = cluster.kubeconfig("eve", &stranger.issue_client("eve", "system:masters", now).unwrap());

    let who = cluster.ok(&admin, "auth whoami").await;
    assert!(
        who.contains("kubernetes-admin") && who.contains("[system:masters system:authenticated]"),
        "{who}"
    );
    let who = cluster.ok(&ann, "auth whoami").await;
    assert!(who.contains("ann") && who.contains("[dev system:authenticated]"), "{who}");
    cluster.refused(&eve, "get namespaces", "You must be logged in to the server").await;

    let forbidden = r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#;
    cluster.refused(&ann, "get pods", forbidden).await;
    assert_eq!(cluster.kubectl(&ann, "auth can-i list pods").await, (false, "no\n".into()));
    assert_eq!(cluster.ok(&admin, "auth can-i list pods").await, "yes\n");
    assert_eq!(cluster.kubectl(&admin, "auth can-i list pods --as ann").await, (false, "no\n".into()));
    cluster.ok(&admin, "create rolebinding devs --clusterrole=view --group=dev").await;
    assert_eq!(cluster.ok(&admin, "auth can-i list pods --as joe --as-group dev").await, "yes\n");
    assert!(cluster.ok(&ann, "get pods").await.contains("No resources found"));
    cluster.refused(&ann, "get secrets", r#"cannot list resource "secrets""#).await;
    cluster
        .refused(
            &ann,
            "get pods --as bob",
            r#"User "ann" cannot impersonate-on:user-info:list resource "pods""#,
        )
        .await;
    let list = cluster.ok(&ann, "auth can-i --list").await;
    assert!(
        list.contains("selfsubjectrulesreviews.authorization.k8s.io") && list.contains("[get list watch]"),
        "{list}"
    );

    // Roles may be written by those who hold what they grant.
    cluster.ok(&admin, "create rolebinding ann --clusterrole=admin --user=ann").await;
    cluster.ok(&ann, "create role reader --verb=get --resource=pods").await;
    cluster
        .refused(
            &ann,
            "create role nodes --verb=get --resource=nodes",
            "is attempting to grant RBAC permissions not currently held",
        )
        .await;

    cluster.ok(&admin, "create serviceaccount builder").await;
    let token = cluster.ok(&admin, "create token builder --duration=10m").await;
    let with_token = |token: &str| {
        format!(
            "--kubeconfig=/dev/null --server={} --insecure-skip-tls-verify --token={}",
            cluster.address,
            token.trim()
        )
    };
    let who = cluster.ok(&admin, &format!("{} auth whoami", with_token(&token))).await;
    assert!(who.contains("system:serviceaccount:default:builder") && who.contains("JTI="), "{who}");
    let who = cluster.ok(&admin, &format!("{} auth whoami", with_token("fixed"))).await;
    assert!(who.contains("robot") && who.contains("[dev ops system:authenticated]"), "{who}");
    cluster.ok(&admin, "delete serviceaccount builder").await;
    let gone = format!("{} auth whoami", with_token(&token));
    cluster.refused(&admin, &gone, "You must be logged in to the server").await;
    cluster.shutdown.cancel();
}
