//! What `bowline up` finds when it starts: directories of others, a tainted node, its own traces.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bowline_api::{Node, Pod, build};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use support::objects::{create, delete, until_gone, until_phase};
use support::{Cluster, machine};

fn up(data: &Path, kubelet: &Path) -> Output {
    up_as("test-node", data, kubelet)
}

fn up_as(node: &str, data: &Path, kubelet: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["up", "--listen", "127.0.0.1:0", "--node-name", node]);
    command.args(["--data-dir".as_ref(), data.as_os_str()]);
    command.args(["--kubelet-dir".as_ref(), kubelet.as_os_str()]);
    command.env("RUST_LOG", "off").output().expect("run bowline")
}

fn assert_refused(output: &Output, wanted: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one sentence, not: {text}");
    wanted.iter().for_each(|part| assert!(text.contains(part), "should say {part:?}: {text}"));
}

/// Everything below a directory: paths, and what is in files.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("kind");
        let bytes = if kind.is_file() { std::fs::read(&path).expect("readable") } else { Vec::new() };
        found.push((path.display().to_string(), bytes));
        if kind.is_dir() {
            found.extend(content(&path));
        }
    }
    found.sort();
    found
}

/// C1: the pods of another kubelet look like orphans.
#[test]
fn a_directory_of_another_kubelet_is_refused_and_untouched() {
    let scratch = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
    let kubelet = scratch.path().join("kubelet");
    let volumes = kubelet.join("pods/11111111-2222-3333-4444-555555555555/volumes");
    let data = volumes.join("kubernetes.io~empty-dir/cache/data.txt");
    let token = volumes.join("kubernetes.io~projected/kube-api-access");
    std::fs::create_dir_all(data.parent().expect("parent")).expect("empty dir");
    std::fs::create_dir_all(&token).expect("projected");
    std::fs::write(&data, "precious").expect("data");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&token).status().expect("mount");
    assert!(mounted.success());
    std::fs::write(token.join("token"), "secret").expect("token");
    let before = content(&kubelet);
    let output = up(&scratch.path().join("data"), &kubelet);
    let after = content(&kubelet);
    let mounts = machine::mounts_below(scratch.path());
    machine::release_below(scratch.path());
    assert_refused(&output, &["`pods`", "--kubelet-dir DIR"]);
    assert_eq!(after, before, "nothing is changed");
    assert_eq!(mounts, [token.display().to_string()], "still mounted");
}

/// C1: two installations, one kubelet directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_installation_is_refused_also_after_its_death() {
    let mut cluster = Cluster::start().await;
    let cache = run_with_cache(&cluster).await;
    let logs = || std::fs::read_dir(cluster.kubelet_dir().join("pod-logs")).expect("logs").count();

    let other = cluster.scratch.path().join("other");
    assert_refused(&up(&other, &cluster.kubelet_dir()), &["another Bowline", "--kubelet-dir DIR"]);
    assert_eq!((std::fs::read_to_string(&cache).expect("kept"), logs()), ("mine\n".into(), 1));
    cluster.kill().await;
    assert_refused(
        &up(&other, &cluster.kubelet_dir()),
        &["another Bowline installation", "--kubelet-dir DIR"],
    );
    assert_eq!(std::fs::read_to_string(&cache).expect("kept"), "mine\n");

    cluster.restart().await;
    assert_kept_until_deleted(&cluster, &cache).await;
}

/// Runs the pod `kept`, which writes a file to its emptyDir, and returns the file.
async fn run_with_cache(cluster: &Cluster) -> PathBuf {
    run_until_file(cluster, "kept", "echo mine > /cache/file; exec sleep 3600").await
}

/// Runs a pod until its script has made `/cache/file`, and returns where that is on this machine.
async fn run_until_file(cluster: &Cluster, name: &str, script: &str) -> PathBuf {
    let client = cluster.client().await;
    let mut pod = build::pod(name).shell(script).grace_seconds(0).build();
    let spec = pod.spec.as_mut().expect("spec");
    spec.volumes = serde_json::from_value(json!([{"name": "cache", "emptyDir": {}}])).expect("volume");
    spec.containers[0].volume_mounts =
        serde_json::from_value(json!([{"name": "cache", "mountPath": "/cache"}])).expect("mount");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&pods, &pod).await.expect("create pod");
    until_phase(&client, name, "Running").await.expect("running");
    let uid = pods.get(name).await.expect("get").metadata.uid.expect("uid");
    let volumes = cluster.kubelet_dir().join("pods").join(&uid).join("volumes");
    let cache = volumes.join("kubernetes.io~empty-dir/cache/file");
    support::until_exists(&cache).await;
    cache
}

/// The pod of [`run_with_cache`] still runs with its data, and goes without a trace when it is deleted.
async fn assert_kept_until_deleted(cluster: &Cluster, cache: &Path) {
    let client = cluster.client().await;
    until_phase(&client, "kept", "Running").await.expect("undisturbed");
    assert_eq!(std::fs::read_to_string(cache).expect("kept"), "mine\n");
    let pods: Api<Pod> = Api::namespaced(client, "default");
    delete(&pods, "kept").await.expect("delete");
    until_gone(&pods, "kept").await.expect("gone");
    cluster.assert_nothing_left().await;
}

/// Pods are bound to a node by its name: under another one, they would all look like orphans.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_name_is_refused_and_the_old_one_goes_on() {
    let mut cluster = Cluster::start().await;
    let cache = run_with_cache(&cluster).await;
    cluster.kill().await;
    let output = up_as("renamed", &cluster.data_dir(), &cluster.kubelet_dir());
    assert_refused(&output, &["`test-node`", "`renamed`", "--node-name test-node"]);
    cluster.restart().await;
    assert_kept_until_deleted(&cluster, &cache).await;
}

/// Older versions wrote no ids and no records of pods.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_an_older_version_run_on_after_an_upgrade() {
    let mut cluster = Cluster::start().await;
    let cache = run_with_cache(&cluster).await;
    cluster.kill().await;
    let (data, kubelet) = (cluster.data_dir(), cluster.kubelet_dir());
    for id in [
        data.join("installation"),
        data.join("pool/installation"),
        kubelet.join(".bowline-installation"),
        kubelet.join(".bowline-lock"),
    ] {
        std::fs::remove_file(&id).unwrap_or_else(|error| panic!("{}: {error}", id.display()));
    }
    std::fs::remove_dir_all(kubelet.join("bowline-pods")).expect("records");
    let foreign = kubelet.join("pods/11111111-2222-3333-4444-555555555555");
    std::fs::create_dir(&foreign).expect("pod of another kubelet");
    // The second refusal shows that the first one has not changed what the next start makes of it.
    for _ in 0..2 {
        assert_refused(&up(&data, &kubelet), &["`pods/11111111-", "findmnt -R", "--kubelet-dir DIR"]);
    }
    std::fs::remove_dir(&foreign).expect("untouched");
    cluster.restart().await;
    assert_kept_until_deleted(&cluster, &cache).await;
}

/// C6: a taint is a person's word about new pods, not about the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tainted_node_starts_and_drains() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let claim = build::claim("data").size("64Mi").build();
    create(&Api::namespaced(client.clone(), "default"), &claim).await.expect("create claim");
    let pod = build::pod("long").shell("exec sleep 3600").mount("data", "/data").grace_seconds(1).build();
    create(&pods, &pod).await.expect("create pod");
    until_phase(&client, "long", "Running").await.expect("running");
    let taint = json!({"spec": {"taints": [{"key": "maint", "value": "true", "effect": "NoSchedule"}]}});
    let nodes: Api<Node> = Api::all(client);
    nodes.patch("test-node", &PatchParams::default(), &Patch::Merge(taint)).await.expect("taint");
    cluster.restart().await;
    assert!(cluster.interrupt().await, "Ctrl-C ends with success");
    cluster.assert_nothing_mounted();
}

/// C6: whenever the signal comes, containers of an earlier process end and their volumes are unmounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_while_starting_drains() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&pods, &build::pod("long").shell("exec sleep 3600").grace_seconds(1).build())
        .await
        .expect("create");
    until_phase(&client, "long", "Running").await.expect("running");
    cluster.kill().await;
    assert!(!machine::mounts_below(cluster.scratch.path()).is_empty(), "its token is mounted");
    assert!(cluster.interrupted_start().await, "ends with success");
    cluster.assert_nothing_mounted();
}

/// The second Ctrl-C does not wait for anything; the next start takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_interrupt_ends_the_process_at_once() {
    const SIGINT: i32 = 2;
    let mut cluster = Cluster::start().await;
    // A container that runs may not have got as far as the trap.
    let script = "trap '' TERM; echo deaf > /cache/file; while :; do sleep 1; done";
    run_until_file(&cluster, "stubborn", script).await;
    assert_eq!(
        cluster.interrupt_twice().await,
        Some(SIGINT),
        "and not by itself when its container has ended"
    );
    cluster.restart().await;
    let pods: Api<Pod> = Api::namespaced(cluster.client().await, "default");
    delete(&pods, "stubborn").await.expect("delete");
    until_gone(&pods, "stubborn").await.expect("gone");
    cluster.assert_nothing_left().await;
}

/// C10: what an earlier process left is no news, and no warning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_after_a_kill_warns_of_nothing() {
    let mut cluster = Cluster::start().await;
    cluster.restart().await;
    let log = cluster.log();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

/// The kernel names mounts by their real path, whatever path the operator gave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mounts_behind_a_link_are_found_again() {
    let scratch = tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory");
    std::fs::create_dir(scratch.path().join("real")).expect("directory");
    std::os::unix::fs::symlink("real", scratch.path().join("kubelet")).expect("link");
    let mut cluster = Cluster::start_in(scratch).await;
    let client = cluster.client().await;
    let mut pod =
        build::pod("kept").shell("echo mine > /cache/file; exec sleep 3600").grace_seconds(0).build();
    let spec = pod.spec.as_mut().expect("spec");
    let memory = json!([{"name": "cache", "emptyDir": {"medium": "Memory"}}]);
    spec.volumes = serde_json::from_value(memory).expect("volume");
    spec.containers[0].volume_mounts =
        serde_json::from_value(json!([{"name": "cache", "mountPath": "/cache"}])).expect("mount");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&pods, &pod).await.expect("create pod");
    until_phase(&client, "kept", "Running").await.expect("running");
    let uid = pods.get("kept").await.expect("get").metadata.uid.expect("uid");
    let volumes = cluster.kubelet_dir().join("pods").join(&uid).join("volumes");
    let file = volumes.join("kubernetes.io~empty-dir/cache/file");
    support::until_exists(&file).await;

    cluster.restart().await;
    let client = cluster.client().await;
    until_phase(&client, "kept", "Running").await.expect("undisturbed");
    assert_eq!(std::fs::read_to_string(&file).expect("still on top"), "mine\n");
    let pods: Api<Pod> = Api::namespaced(client, "default");
    delete(&pods, "kept").await.expect("delete");
    until_gone(&pods, "kept").await.expect("gone");
    cluster.assert_nothing_left().await;
}
