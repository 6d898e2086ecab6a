//! A node of `bowline up` is cut off from the API server.

use bowline_api::{CSINode, Node, PersistentVolumeClaim, Pod, build, node};
use kube::{Api, Client};
use rustix::process::Signal;

use super::support::objects::{create, delete, until, until_gone, until_phase};
use super::up::{Up, eventually, on_node, ready, runs_on, runs_with_volume};

/// A volume for one node at a time goes from the second node to the third, with what is on it.
async fn moves_with_its_volume(claims: &Api<PersistentVolumeClaim>, pods: &Api<Pod>, client: &Client) {
    create(claims, &build::claim("disk").class("local").size("64Mi").build()).await.expect("a claim");
    for (node, script) in
        [("n-2", "echo here | tee /data/file; sleep 600"), ("n-3", "grep here /data/file && sleep 600")]
    {
        create(pods, &on_node("q", "disk", node, script)).await.expect("a pod");
        until_phase(client, "q", "Running").await.unwrap_or_else(|why| panic!("{node}: {why}"));
        // Logs come from the kubelet of that node, over TLS with certificates on both sides.
        let mut written = pods.logs("q", &kube::api::LogParams::default()).await.expect("logs");
        while !written.contains("here") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            written = pods.logs("q", &kube::api::LogParams::default()).await.expect("logs");
        }
        delete(pods, "q").await.expect("deleted");
        until_gone(pods, "q").await.expect("gone");
    }
    delete(claims, "disk").await.expect("deleted");
    until_gone(claims, "disk").await.expect("gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_moves_away_from_a_node_that_is_cut_off() {
    let mut up = Up::start().await;
    let client = up.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    for name in ["n", "n-2", "n-3"] {
        until(&nodes, name, "Ready", |found| found.is_some_and(node::ready)).await.expect("ready");
        // Each driver answers as each node.
        let csi_nodes: Api<CSINode> = Api::all(client.clone());
        let both = |found: Option<&CSINode>| found.is_some_and(|n| n.spec.drivers.len() == 2);
        until(&csi_nodes, name, "two drivers", both).await.expect("registered");
        let found = csi_nodes.get(name).await.expect("there").spec.drivers;
        assert!(found.iter().all(|driver| driver.node_id == name), "{found:?}");
    }
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = build::claim("data").class("share").access_mode("ReadWriteMany").size("1Mi").build();
    ready(&client, &[]).await;
    create(&claims, &claim).await.expect("a claim");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    moves_with_its_volume(&claims, &pods, &client).await;
    create(&pods, &on_node("p", "data", "n-2", "echo kept > /data/file; sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running on the second node");
    assert!(!up.mounts("n-2").is_empty());

    up.node("cut", "n-2");
    // What an administrator does who knows that the node is gone.
    let by_force = kube::api::DeleteParams::default().grace_period(0);
    pods.delete("p", &by_force).await.expect("deleted");
    until_gone(&pods, "p").await.expect("gone");
    create(&pods, &on_node("p", "data", "n-3", "grep kept /data/file && sleep 600")).await.expect("a pod");
    until_phase(&client, "p", "Running").await.expect("running on the third node");
    assert!(!up.mounts("n-2").is_empty(), "the node that is cut off knows nothing of it");

    up.node("join", "n-2");
    until(&nodes, "n-2", "back", |found| found.is_some_and(node::ready)).await.expect("ready again");
    eventually("it takes down what was deleted meanwhile", || up.mounts("n-2").is_empty()).await;

    // Ctrl-C with a pod that runs.
    up.ends_clean();
}

/// The kubelet of a node that is cut off cannot say goodbye to the API server when its parent dies. It ends all the same,
/// and the next start finds its containers and its volumes.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_finds_what_a_node_that_was_cut_off_has() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2", "n-3"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    runs_with_volume(&client, "q", "n-2").await;
    up.node("cut", "n-2");
    // Deleted while its node cannot hear of it.
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let by_force = kube::api::DeleteParams::default().grace_period(0);
    pods.delete("q", &by_force).await.expect("deleted");
    until_gone(&pods, "q").await.expect("gone");
    assert_eq!(up.containers("n-2").len(), 2, "the node that is cut off knows nothing of it");

    let old = up.kubelets("n-2");
    up.restart(3);
    up.another_kubelet("n-2", &old).await;
    eventually("the end of the one before", || !old.iter().any(|pid| up.kubelets("n-2").contains(pid))).await;
    let client = up.client().await;
    ready(&client, &["n-2"]).await;
    eventually("one container", || up.containers("n-2").len() == 1).await;
    runs_on(&client, "p").await;

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    delete(&pods, "p").await.expect("deleted");
    until_gone(&pods, "p").await.expect("gone");
    for name in ["p", "q"] {
        delete(&claims, name).await.expect("deleted");
        until_gone(&claims, name).await.expect("gone");
    }
    eventually("no mount", || up.mounts("n-2").is_empty()).await;
    up.ends_clean();
}

/// Its kubelet dies while it is cut off, and can start again only with the API server.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_containers_of_a_node_that_is_cut_off() {
    let mut up = Up::start().await;
    let client = up.client().await;
    ready(&client, &["n-2", "n-3"]).await;
    runs_with_volume(&client, "p", "n-2").await;
    let before = up.kubelets("n-2");
    up.node("cut", "n-2");
    up.signal_kubelet("n-2", Signal::KILL);
    up.another_kubelet("n-2", &before).await;
    up.ends_clean();
}
