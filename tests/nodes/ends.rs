//! Kubelets of `bowline up` that die, and their end with their parent.

use bowline_api::{Node, PersistentVolumeClaim, Pod, build, node};
use kube::Api;
use rustix::process::Signal;

use super::support::objects::{create, delete, until, until_gone, until_phase};
use super::up::{Up, on_node, ready, reported_stopped, runs_on, runs_with_volume};

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_dies_comes_back_and_all_end_with_their_parent() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2"]).await;
    runs_with_volume(&client, "p", "n-2").await;

    let before = up.kubelets("n-2");
    assert_eq!(before.len(), 1);
    up.signal_kubelet("n-2", Signal::KILL);
    up.another_kubelet("n-2", &before).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&pods, &on_node("q", "p", "n-2", "sleep 600")).await.expect("a pod");
    until_phase(&client, "q", "Running").await.expect("it works on");

    // The parent dies without a word: the kubelets end, the containers do not.
    let old = up.kubelets("n-2");
    up.restart(3);
    up.another_kubelet("n-2", &old).await;
    let client = up.client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["p", "q"] {
        runs_on(&client, name).await;
        delete(&pods, name).await.expect("deleted");
        until_gone(&pods, name).await.expect("gone");
    }
    up.ends_clean();
}

/// Containers of an earlier start run while their kubelet starts again: Ctrl-C must end them, too.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_a_kubelet_starts_leaves_nothing() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    let old = up.kubelets("n-2");
    up.restart(3);
    up.another_kubelet("n-2", &old).await;
    up.ends_clean();
}

/// A kubelet that keeps dying is started again after a pause: Ctrl-C in that pause must end its containers, too.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_a_kubelet_waits_for_its_restart_leaves_nothing() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2", "n-3"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    // The pause is long enough to meet it.
    for pause in ["pause=1s", "pause=2s", "pause=4s", "pause=8s"] {
        let died = up.kubelets("n-2");
        up.signal_kubelet("n-2", Signal::KILL);
        up.up.says(pause).await;
        if pause != "pause=8s" {
            up.another_kubelet("n-2", &died).await;
        }
    }
    assert!(up.kubelets("n-2").is_empty(), "it waits");
    assert!(!up.containers("n-2").is_empty() && !up.mounts("n-2").is_empty(), "its container runs on");
    up.ends_clean();
}

/// The kubelet dies while it waits for a container: another one finishes.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_dies_while_it_ends_its_containers_leaves_nothing() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2"]).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, &build::claim("p").class("local").size("64Mi").build()).await.expect("a claim");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let mut stubborn = on_node("p", "p", "n-2", "trap '' TERM; while :; do sleep 1; done");
    if let Some(spec) = &mut stubborn.spec {
        spec.termination_grace_period_seconds = Some(30);
    }
    create(&pods, &stubborn).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running");
    up.up.signal("INT");
    let nodes: Api<Node> = Api::all(client.clone());
    until(&nodes, "n-2", "not ready", |found| found.is_some_and(|node| !node::ready(node)))
        .await
        .expect("it ends");
    up.signal_kubelet("n-2", Signal::KILL);
    up.ended_clean();
}

/// A service manager sends SIGTERM to every process of the service at once.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_to_all_processes_leaves_nothing() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    up.signal_kubelet("n-2", Signal::TERM);
    up.ends_clean();
}

/// What the API says after Ctrl-C is what there is: the nodes are not ready and use no volume, so that one can be attached
/// elsewhere at the next start.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_nodes_not_ready_without_volumes_in_use() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2", "n-3"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    up.ends_clean();

    // One that is left out was left clean and is not started for anything.
    up.restart(1);
    let client = up.client().await;
    ready(&client, &["n"]).await;
    for name in ["n-2", "n-3"] {
        reported_stopped(&client, name).await;
        assert!(up.kubelets(name).is_empty(), "{name}");
    }
    assert!(!up.up.log().contains("is not among"), "{}", up.up.log());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("p", &kube::api::DeleteParams::default().grace_period(0)).await.expect("deleted");
    until_gone(&pods, "p").await.expect("gone");
    create(&pods, &on_node("q", "p", "n", "sleep 600")).await.expect("a pod");
    until_phase(&client, "q", "Running").await.expect("its volume came along");
    delete(&pods, "q").await.expect("deleted");
    until_gone(&pods, "q").await.expect("gone");
    delete(&claims, "p").await.expect("deleted");
    until_gone(&claims, "p").await.expect("gone");
    up.ends_clean();
}
