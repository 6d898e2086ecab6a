//! Plain `kubectl` against the server alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_apiserver::{Store, tls};
use bowline_host::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

const MANIFEST: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: x.example.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, labels: {app: web}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"#;

/// `$KUBECTL`, or the one that `make` builds. Missing is a failure, never a skip.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("KUBECTL") {
        return path.into();
    }
    let peers = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers"));
    let built = peers.into_iter().flatten().flatten().map(|entry| entry.path());
    let found = built.filter(|path| path.to_string_lossy().contains("kubectl-")).max();
    found.unwrap_or_else(|| panic!("no kubectl: run `make test`, which builds one, or set KUBECTL"))
}

struct Kubectl {
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(program());
        command.env("KUBECONFIG", &self.kubeconfig).arg("--cache-dir").arg(&self.cache);
        command.args(arguments.split_whitespace()).kill_on_drop(true);
        command
    }

    /// Runs to the end; whether it succeeded, and all it said.
    async fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    async fn ok(&self, arguments: &str) -> String {
        let (success, text) = self.run(arguments, MANIFEST).await;
        assert!(success, "kubectl {arguments}: {text}");
        text
    }
}

async fn serve(dir: &Path) -> (Kubectl, CancellationToken) {
    let now = common::Now.now();
    let authority = Authority::ephemeral(now).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubectl = Kubectl { kubeconfig: dir.join("kubeconfig"), cache: dir.join("cache") };
    let address = format!("https://{}", listener.local_addr().unwrap());
    let admin = authority.issue_admin(now).unwrap();
    write_kubeconfig(&kubectl.kubeconfig, &address, &authority, &admin).unwrap();
    let config = tls::config(&authority, &authority.issue_server(&[], now).unwrap()).unwrap();
    let shutdown = CancellationToken::new();
    let server = common::server(Store::memory()).await;
    tokio::spawn(tls::serve(listener, server, config, shutdown.clone()));
    (kubectl, shutdown)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session() {
    let dir = tempfile::tempdir().unwrap();
    let (kubectl, shutdown) = serve(dir.path()).await;

    let resources = kubectl.ok("api-resources").await;
    let words = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    assert!(resources.lines().map(words).any(|line| line == "persistentvolumeclaims pvc"), "{resources}");
    let applied = kubectl.ok("apply -f -").await;
    assert!(applied.contains("storageclass.storage.k8s.io/fast created"), "{applied}");
    assert!(applied.contains("persistentvolumeclaim/data created"), "{applied}");
    assert!(kubectl.ok("apply -f -").await.contains("persistentvolumeclaim/data unchanged"));
    let printed = kubectl.ok("get pvc").await;
    assert!(printed.contains("NAME   STATUS    VOLUME") && printed.contains("data   Pending"), "{printed}");
    assert!(kubectl.ok("get sc").await.contains("fast (default)"));
    assert_eq!(kubectl.ok("get pvc -l app=web -o name").await, "persistentvolumeclaim/data\n");
    assert!(kubectl.ok("get pvc --field-selector metadata.name=none").await.contains("No resources found"));
    let described = kubectl.ok("describe pvc data").await;
    assert!(described.contains("StorageClass:  fast"), "{described}");
    kubectl.ok("label pvc data tier=db").await;
    kubectl
        .ok(r#"patch pvc data --type=json -p [{"op":"replace","path":"/metadata/labels/tier","value":"x"}]"#)
        .await;
    assert_eq!(kubectl.ok("get pvc data -o jsonpath={.metadata.labels.tier}").await, "x");

    let mut waiting = kubectl.command("wait pvc/data --for=jsonpath={.status.phase}=Bound --timeout=30s");
    let mut waiting = waiting.stdout(Stdio::null()).spawn().unwrap();
    kubectl.ok(r#"patch pvc data --subresource=status --type=merge -p {"status":{"phase":"Bound"}}"#).await;
    assert!(waiting.wait().await.unwrap().success(), "a wait ends when the status changes");

    // Held by its finalizer, so the deletion is seen through by a watch.
    let mut deleting = kubectl.command("delete pvc data --timeout=30s");
    let mut deleting = deleting.stdout(Stdio::null()).spawn().unwrap();
    kubectl.ok("wait pvc/data --for=jsonpath={.metadata.deletionTimestamp} --timeout=30s").await;
    kubectl.ok(r#"patch pvc data --type=merge -p {"metadata":{"finalizers":null}}"#).await;
    assert!(deleting.wait().await.unwrap().success());

    let unknown = MANIFEST.replace("accessModes", "accesModes");
    let (success, text) = kubectl.run("apply -f -", &unknown).await;
    assert!(!success && text.contains(r#"unknown field "spec.accesModes""#), "{text}");
    let (success, text) = kubectl.run("get widgets", "").await;
    assert!(!success && text.contains(r#"the server doesn't have a resource type "widgets""#), "{text}");
    shutdown.cancel();
}
