//! `bowline audit`: what a driver has against what the cluster says, as a process.

use std::process::Command;

use bowline_api::{PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, build};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{DRIVER, Setup, bound, ready};
use crate::support::objects::{create, delete, until_gone};

const BINARY: &str = env!("CARGO_BIN_EXE_bowline");

/// The exit code and what was printed.
fn audit(setup: &Setup, what: &str, output: &str) -> (Option<i32>, String) {
    let address = format!("--csi-address={}", setup.socket().display());
    let mut command = Command::new(BINARY);
    command
        .args(["audit", what, &address, &setup.kubeconfig(), "--timeout=10s", "-o", output])
        .env_remove("KUBECONFIG");
    let ran = command.output().expect("it runs");
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    (ran.status.code(), text)
}

/// The findings of `-o json`, which is one line of standard output.
fn findings(text: &str) -> Vec<Value> {
    let line = text.lines().find(|line| line.starts_with('{')).expect(text);
    let value: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(value["driver"], DRIVER);
    value["findings"].as_array().expect("a list").clone()
}

/// Takes an object away as people do who lost patience: without its finalizers.
async fn tear_out<K>(api: &Api<K>, name: &str)
where
    K: bowline_machinery::Object + std::fmt::Debug,
{
    delete(api, name).await.expect("deleted");
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name}: {error}"),
    }
    until_gone(api, name).await.expect("gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_finds_what_has_no_owner_and_what_is_missing() {
    let setup = Setup::new().await;
    let client = setup.client.clone();
    let mut driver = setup.driver();
    let mut controllers = setup.core("kube-controller-manager", &["--leader-elect=false"]);
    let mut provisioner = setup.sidecar("csi-provisioner", 1);
    ready(&client, "node").await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, &build::class("now", DRIVER).build()).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("data").class("now").size("64Mi").build()).await.expect("a claim");
    let name = bound(&claims, "data").await;
    let (code, text) = audit(&setup, "volumes", "text");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = audit(&setup, "snapshots", "json");
    assert_eq!((code, findings(&text).len()), (Some(0), 0), "no CRDs, no snapshots: {text}");

    for program in [&mut provisioner, &mut controllers] {
        assert!(program.end().success(), "{}", program.name);
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let handle =
        volumes.get(&name).await.expect("there").spec.and_then(|spec| spec.csi).expect("CSI").volume_handle;
    tear_out(&volumes, &name).await;
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": "ghost"}});
    let ghost = json!({"metadata": {"name": "ghost"}, "spec": spec});
    create(&volumes, &serde_json::from_value(ghost).expect("a volume")).await.expect("created");
    let attachment = json!({"metadata": {"name": "by-hand"}, "spec":
        {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": "ghost"}}});
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    create(&attachments, &serde_json::from_value(attachment).expect("an attachment")).await.expect("created");

    let (code, text) = audit(&setup, "volumes", "json");
    assert_eq!(code, Some(2), "{text}");
    let expected = [
        json!({"finding": "noOwner", "handle": handle}),
        json!({"finding": "missing", "object": "persistentvolume/ghost", "handle": "ghost"}),
    ];
    assert_eq!(findings(&text), expected);
    let (code, text) = audit(&setup, "volumes", "text");
    assert!(code == Some(2) && text.contains("no owner") && text.contains("2 findings"), "{text}");
    driver.end();
    let (code, text) = audit(&setup, "volumes", "text");
    assert!(code == Some(1) && text.lines().count() == 1, "without a driver: {code:?} {text}");
}
