//! Upstream's kube-controller-manager and kube-scheduler, unmodified, on our API server: a claim is bound, a pod scheduled.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::pin::pin;

use bowline_api::{Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount, StorageClass};
use futures::TryStreamExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::PATIENCE;
use support::control_plane::{ControlPlane, Upstream};

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("a whole object");
    api.create(&PostParams::default(), &object).await.expect("created")
}

/// Waits until an object is as wanted.
async fn until<K>(api: &Api<K>, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(watcher(api.clone(), config).default_backoff().applied_objects());
    let found = async {
        loop {
            let object = events.try_next().await.expect("a watch that lasts").expect("an event");
            if wanted(&object) {
                return object;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("{name} was never {what}"))
}

fn volume(name: &str, class: &str, node: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "local": {"path": "/mnt/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn class(name: &str, mode: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
}

/// A node that is ready, as its kubelet would report it; nobody runs on it.
async fn ready_node(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"});
    let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
    create(&nodes, node).await;
    let status = json!({"status": {
        "capacity": capacity, "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": "2030-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.expect("status");
    let untainted = json!({"spec": {"taints": null}});
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(untainted)).await.expect("no taints");
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_controllers_bind_and_its_scheduler_schedules() {
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    let _controllers = Upstream::start(
        &plane,
        "kube-controller-manager",
        &[
            "--controllers=serviceaccount-controller,persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller",
        ],
    );
    let _scheduler = Upstream::start(&plane, "kube-scheduler", &[]);

    let classes: Api<StorageClass> = Api::all(client.clone());
    create(&classes, class("now", "Immediate")).await;
    create(&classes, class("later", "WaitForFirstConsumer")).await;
    for name in ["first", "second"] {
        ready_node(&client, name).await;
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    create(&volumes, volume("for-now", "now", "first")).await;
    create(&volumes, volume("for-later", "later", "second")).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, claim("eager", "now")).await;
    create(&claims, claim("patient", "later")).await;

    let eager = until(&claims, "eager", "Bound", |claim| phase(claim) == "Bound").await;
    assert_eq!(eager.spec.and_then(|spec| spec.volume_name).as_deref(), Some("for-now"));
    assert_eq!(phase(&claims.get("patient").await.expect("there")), "Pending", "nobody uses it yet");

    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    until(&accounts, "default", "made by upstream's controller", |_| true).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({"metadata": {"name": "user"}, "spec": {
        "containers": [{"name": "main", "image": "scratch"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "patient"}}],
    }});
    create(&pods, pod).await;
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let pod = until(&pods, "user", "scheduled", |pod| node(pod).is_some()).await;
    assert_eq!(node(&pod).as_deref(), Some("second"), "where its volume is");
    let patient = until(&claims, "patient", "Bound", |claim| phase(claim) == "Bound").await;
    assert_eq!(patient.spec.and_then(|spec| spec.volume_name).as_deref(), Some("for-later"));
}
