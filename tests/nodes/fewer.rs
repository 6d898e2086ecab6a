//! `bowline up` starts with fewer nodes than before.

use bowline_api::{PersistentVolumeClaim, Pod, build};
use kube::Api;

use super::support::objects::{create, delete, until_gone};
use super::up::{Up, eventually, ready, reported_stopped, runs_on, runs_with_volume};

/// After a crash, containers of all nodes run on. Those of a node that is left out end, and its volumes are free again;
/// those of the others do not notice.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_left_out_after_a_crash_leave_no_container_and_no_mount() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2", "n-3"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    runs_with_volume(&client, "q", "n-3").await;

    up.restart(2);
    let client = up.client().await;
    // A pod that only n-3 would take: it must not be bound to a node that is about to go.
    let mut only_there = build::pod("r").shell("sleep 600").build();
    let selector = [("kubernetes.io/hostname".to_owned(), "n-3".to_owned())];
    if let Some(spec) = &mut only_there.spec {
        spec.node_selector = Some(selector.into());
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&pods, &only_there).await.expect("a pod");
    eventually("no container of n-3", || up.containers("n-3").is_empty()).await;
    eventually("no mount of n-3", || up.mounts("n-3").is_empty()).await;
    eventually("no kubelet of n-3", || up.kubelets("n-3").is_empty()).await;
    reported_stopped(&client, "n-3").await;
    ready(&client, &["n", "n-2"]).await;
    runs_on(&client, "p").await;
    let bound = pods.get("r").await.expect("there").spec.and_then(|spec| spec.node_name);
    assert_eq!(bound, None, "no pod is bound to a node that is left out");
    delete(&pods, "r").await.expect("deleted");
    up.up.says("node `n-3` is not among").await;

    // A node that comes back goes on with its pods.
    up.ends_clean();
    up.restart(3);
    let client = up.client().await;
    ready(&client, &["n-3"]).await;
    eventually("its container", || !up.containers("n-3").is_empty()).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    for name in ["p", "q"] {
        delete(&pods, name).await.expect("deleted");
        until_gone(&pods, name).await.expect("gone");
        delete(&claims, name).await.expect("deleted");
        until_gone(&claims, name).await.expect("gone");
    }
    up.ends_clean();
}
