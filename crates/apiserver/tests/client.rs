//! The server as `kube` clients see it: in this process, and over TLS through a kubeconfig.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::PermissionsExt;

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_apiserver::{Store, tls};
use bowline_host::Clock;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn claim(name: &str) -> PersistentVolumeClaim {
    object(json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))
}

#[tokio::test]
async fn a_claim_lives_and_dies() {
    let client = Client::new(common::server(Store::memory()).await, "default");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);
    let created = claims.create(&PostParams::default(), &claim("a")).await.unwrap();
    let version = created.metadata.resource_version.clone().unwrap();
    assert_eq!(
        created.metadata.finalizers.as_deref(),
        Some(&["kubernetes.io/pvc-protection".to_owned()][..])
    );
    let events = claims.watch(&WatchParams::default(), &version).await.unwrap();

    let bound = json!({"status": {"phase": "Bound"}});
    claims.patch_status("a", &PatchParams::default(), &Patch::Merge(&bound)).await.unwrap();
    claims.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(claims.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let release =
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["kubernetes.io/pvc-protection"]}});
    claims.patch("a", &PatchParams::default(), &Patch::Strategic(&release)).await.unwrap();
    assert!(claims.get_opt("a").await.unwrap().is_none());

    let seen: Vec<&str> = events
        .take(3)
        .map_ok(|event| match event {
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            _ => "other",
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["modified", "modified", "deleted"]);
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let client = Client::new(common::server(Store::memory()).await, "default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let parameters = PostParams::default();
    namespaces.create(&parameters, &object(json!({"metadata": {"name": "n"}}))).await.unwrap();
    let (claims, configs): (Api<PersistentVolumeClaim>, Api<ConfigMap>) =
        (Api::namespaced(client.clone(), "n"), Api::namespaced(client, "n"));
    claims.create(&parameters, &claim("held")).await.unwrap();
    configs.create(&parameters, &object(json!({"metadata": {"name": "c"}}))).await.unwrap();

    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let leaving = namespaces.get("n").await.unwrap();
    assert_eq!(leaving.status.unwrap().phase.as_deref(), Some("Terminating"));
    assert!(configs.get_opt("c").await.unwrap().is_none());
    let refused = configs.create(&parameters, &object(json!({"metadata": {"name": "d"}}))).await.unwrap_err();
    assert!(refused.to_string().contains("because it is being terminated"), "{refused}");

    let release = json!({"metadata": {"finalizers": null}});
    claims.patch("held", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    assert!(namespaces.get_opt("n").await.unwrap().is_none(), "it goes with the last object in it");
    let refused = namespaces.delete("default", &DeleteParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains(r#"namespaces "default" is forbidden"#), "{refused}");
}

#[tokio::test]
async fn tls_and_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    let now = common::Now.now();
    let first = Authority::open(dir.path(), now).unwrap().certificate().to_owned();
    let authority = Authority::open(dir.path(), now).unwrap();
    assert_eq!(authority.certificate(), first, "the authority is kept");
    let path = dir.path().join("kubeconfig");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    write_kubeconfig(&path, &address, &authority, &authority.issue_admin(now).unwrap()).unwrap();
    for private in [path.clone(), dir.path().join("pki/ca.key")] {
        assert_eq!(std::fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let config = tls::config(&authority, &authority.issue_server(&[], now).unwrap()).unwrap();
    let server = common::server(Store::open_file(dir.path()).unwrap()).await;
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(tls::serve(listener, server, config, shutdown.clone()));

    let options = KubeConfigOptions::default();
    let mut kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.0+bowline");
    let mut watching = namespaces.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(watching.next().await.is_some());

    for user in &mut kubeconfig.auth_infos {
        let user = user.auth_info.as_mut().unwrap();
        (user.client_certificate_data, user.client_key_data) = (None, None);
    }
    let nobody = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let nobody = Client::try_from(nobody).unwrap();
    let refused = Api::<Namespace>::all(nobody.clone()).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    assert!(nobody.apiserver_version().await.is_ok(), "the version is for everybody");

    shutdown.cancel();
    while watching.next().await.is_some_and(|event| event.is_ok()) {}
    tokio::time::timeout(std::time::Duration::from_secs(60), serving).await.unwrap().unwrap();
}
