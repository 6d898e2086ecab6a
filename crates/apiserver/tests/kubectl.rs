//! Plain `kubectl` against the server alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::process::Stdio;

use bowline_apiserver::Store;
use common::kubectl::serve;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session() {
    let dir = tempfile::tempdir().unwrap();
    let (kubectl, shutdown) = serve(common::server(Store::memory()).await, dir.path(), MANIFEST).await;

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
