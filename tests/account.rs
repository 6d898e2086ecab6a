//! A pod and the API server: what a container finds of its account, that it is known by it, and files that change.

use std::path::{Path, PathBuf};

use bowline_api::{ConfigMap, Meta, Pod};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::support::objects::{create, delete, until, until_gone, until_phase};
use super::support::{Cluster, PATIENCE, machine};

/// Copies what it finds of its account, then waits for the new settings.
const SCRIPT: &str = "set -e
cp /var/run/secrets/kubernetes.io/serviceaccount/* /out/
if touch /settings/own; then exit 1; fi
grep -q old /settings/colour
touch /out/read
until grep -q new /settings/colour; do sleep 0.05; done
touch /out/seen
sleep 3600";

fn pod() -> Pod {
    let pod = json!({
        "metadata": {"name": "client", "namespace": "default", "labels": {"app": "client"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": "host", "command": ["/bin/sh", "-c", SCRIPT],
                "volumeMounts": [
                    {"name": "out", "mountPath": "/out"},
                    {"name": "settings", "mountPath": "/settings"},
                ],
            }],
            "volumes": [
                {"name": "out", "emptyDir": {}},
                {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o440}},
            ],
        },
    });
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_is_known_to_the_api_server_and_sees_changes() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    create(&pods, &pod()).await.expect("create pod");
    let map = json!({"metadata": {"name": "settings"}, "data": {"colour": "old"}});
    create(&maps, &serde_json::from_value(map).expect("a map")).await.expect("create map");
    until_phase(&client, "client", "Running").await.expect("the pod waits for its settings, then runs");
    let uid = pods.get("client").await.expect("get pod").uid().to_owned();
    let volumes = cluster.kubelet_dir().join("pods").join(&uid).join("volumes");
    let out = volumes.join("kubernetes.io~empty-dir/out");
    until_there(&out.join("read")).await;

    known(&cluster, &out).await;
    memory_only(&volumes);
    // The kubelet dies and comes back while the container runs; then the settings change.
    cluster.restart().await;
    let changed = Patch::Merge(json!({"data": {"colour": "new"}}));
    maps.patch("settings", &PatchParams::default(), &changed).await.expect("change the settings");
    until_there(&out.join("seen")).await;

    delete(&pods, "client").await.expect("delete pod");
    until_gone(&pods, "client").await.expect("pod gone");
    until(&maps, "settings", "to stay", |map| map.is_some()).await.expect("the settings stay");
    assert!(!cluster.kubelet_dir().join("pods").join(&uid).exists(), "its directory is gone");
    cluster.assert_nothing_left();
}

/// With what the container read, and nothing else, the API server knows who asks.
async fn known(cluster: &Cluster, out: &Path) {
    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("what the container copied");
    assert_eq!(read("namespace"), "default");
    let mut config = Kubeconfig::read_from(cluster.kubeconfig()).expect("the kubeconfig");
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo { token: Some(read("token").into()), ..AuthInfo::default() });
    }
    for server in &mut config.clusters {
        let server = server.cluster.as_mut().expect("a server");
        server.certificate_authority_data = None;
        server.certificate_authority = Some(out.join("ca.crt").display().to_string());
    }
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.expect("a configuration")).expect("a client");
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review =
        reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.expect("an answer");
    let user = review.status.and_then(|status| status.user_info).expect("a user");
    assert_eq!(user.username.as_deref(), Some("system:serviceaccount:default:default"));
    let extra = user.extra.unwrap_or_default();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], ["client"]);
    let refused = Api::<Pod>::default_namespaced(client).list(&Default::default()).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("forbidden")), "nobody gave it rights");
}

/// Tokens are on no disk, settings are.
fn memory_only(volumes: &Path) {
    let below: Vec<PathBuf> = machine::mounts_below(volumes).into_iter().map(PathBuf::from).collect();
    let [token] = below.as_slice() else { panic!("{below:?}") };
    assert_eq!(token.parent(), Some(volumes.join("kubernetes.io~projected").as_path()));
    assert!(token.join("..data/token").exists());
    let settings = volumes.join("kubernetes.io~configmap/settings");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(settings.join("colour")).expect("the settings").permissions(),
    );
    assert_eq!(mode & 0o777, 0o440);
    assert!(std::fs::symlink_metadata(settings.join("colour")).expect("the settings").is_symlink());
}

async fn until_there(path: &Path) {
    let waiting = async {
        while !path.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{} never came", path.display()));
}
