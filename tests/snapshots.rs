//! Snapshots on a real kernel: taken, shown, deleted, and none left behind by a process that dies in between.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use bowline_api::{
    Meta, PersistentVolume, PersistentVolumeClaim, Pod, VolumeSnapshot, VolumeSnapshotContent, build, keys,
    volume,
};
use bowline_drivers::local::NAME as DRIVER;
use kube::{Api, Client};
use serde_json::{Value, json};
use support::Cluster;
use support::objects::{create, delete, until, until_gone, until_phase};
use support::peers::peer;

fn claims(client: &Client) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), "default")
}

fn snapshots(client: &Client) -> Api<VolumeSnapshot> {
    Api::namespaced(client.clone(), "default")
}

fn contents(client: &Client) -> Api<VolumeSnapshotContent> {
    Api::all(client.clone())
}

fn snapshot(name: &str, source: Value) -> VolumeSnapshot {
    let object = json!({"metadata": {"name": name}, "spec": {"source": source}});
    serde_json::from_value(object).expect("a snapshot")
}

async fn bound_claim(client: &Client, name: &str) {
    let claim = build::claim(name).class("local-immediate").size("64Mi").build();
    create(&claims(client), &claim).await.expect("create claim");
    let bound = |c: Option<&PersistentVolumeClaim>| c.is_some_and(|c| volume::claim_phase(c) == "Bound");
    until(&claims(client), name, "Bound", bound).await.expect("bound");
}

fn is_ready(snapshot: Option<&VolumeSnapshot>) -> bool {
    snapshot.and_then(|one| one.status.as_ref()).and_then(|status| status.ready_to_use) == Some(true)
}

async fn until_ready(client: &Client, name: &str) -> VolumeSnapshot {
    until(&snapshots(client), name, "ready", is_ready).await.expect("ready");
    snapshots(client).get(name).await.expect("get snapshot")
}

/// The claim is free again once its snapshot is ready.
async fn until_released(client: &Client, claim: &str) {
    let free =
        |c: Option<&PersistentVolumeClaim>| c.is_some_and(|c| !c.has_finalizer(keys::SNAPSHOT_SOURCE_CLAIM));
    until(&claims(client), claim, "without the finalizer", free).await.expect("released");
}

/// Deletes everything and looks into the pool.
async fn delete_all(cluster: &Cluster, client: &Client, names: &[&str], claim: &str) {
    for name in names {
        delete(&snapshots(client), name).await.expect("delete snapshot");
        until_gone(&snapshots(client), name).await.expect("snapshot gone");
    }
    let left = contents(client).list(&Default::default()).await.expect("list contents").items;
    assert_eq!(
        left.iter().map(|content| content.name().to_owned()).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
    assert_eq!(cluster.snapshots().len(), 0, "SNAP-1: deletion leaves nothing behind");
    delete(&claims(client), claim).await.expect("delete claim");
    until_gone(&claims(client), claim).await.expect("claim gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_taken_shown_and_deleted() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    bound_claim(&client, "data").await;
    let taken = snapshot("first", json!({"persistentVolumeClaimName": "data"}));
    create(&snapshots(&client), &taken).await.expect("create snapshot");
    let ready = until_ready(&client, "first").await;
    assert_eq!(ready.spec.volume_snapshot_class_name.as_deref(), Some("local"), "the default class");
    let status = ready.status.clone().expect("status");
    assert_eq!(status.restore_size.map(|size| size.0).as_deref(), Some("64Mi"));
    let name = status.bound_volume_snapshot_content_name.expect("bound");
    assert_eq!(name, format!("snapcontent-{}", ready.uid()));
    until_released(&client, "data").await;
    let bound = |s: Option<&VolumeSnapshot>| s.is_some_and(|s| s.has_finalizer(keys::SNAPSHOT_BOUND));
    until(&snapshots(&client), "first", "guarded", bound).await.expect("guarded");
    let content = contents(&client).get(&name).await.expect("get content");
    assert_eq!((content.spec.driver.as_str(), content.spec.deletion_policy.as_str()), (DRIVER, "Delete"));
    assert_eq!(content.spec.source_volume_mode.as_deref(), Some("Filesystem"));
    assert_eq!(content.annotation(keys::SNAPSHOT_BEING_CREATED), None);
    assert_eq!(cluster.snapshots().len(), 1);

    let shown = Command::new(peer("kubectl"))
        .args(["--kubeconfig".as_ref(), cluster.kubeconfig().as_os_str()])
        .args(["get", "volumesnapshot", "first"])
        .output()
        .expect("kubectl");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let columns: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    let expected = "NAME READYTOUSE SOURCEPVC SOURCESNAPSHOTCONTENT RESTORESIZE SNAPSHOTCLASS SNAPSHOTCONTENT CREATIONTIME AGE";
    assert_eq!(columns.join(" "), expected);
    let row: Vec<&str> = shown.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..5], ["first", "true", "data", "64Mi", "local"], "{shown}");

    delete_all(&cluster, &client, &["first"], "data").await;
    cluster.assert_nothing_left().await;
}

/// Runs a pod to its end.
async fn run(client: &Client, pod: Pod) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&pods, &pod).await.expect("create pod");
    until_phase(client, pod.name(), "Succeeded").await.expect("succeeded");
    delete(&pods, pod.name()).await.expect("delete pod");
    until_gone(&pods, pod.name()).await.expect("pod gone");
}

/// SNAP-1: what is restored has the bytes of the snapshot's moment, what is cloned those of now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_and_clones_have_the_bytes_of_their_source() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    bound_claim(&client, "data").await;
    let writer = |name: &str| {
        let script = format!("echo {name} > /data/file && sync");
        build::pod(name).shell(&script).mount("data", "/data").build()
    };
    run(&client, writer("before")).await;
    let taken = snapshot("first", json!({"persistentVolumeClaimName": "data"}));
    create(&snapshots(&client), &taken).await.expect("create snapshot");
    until_ready(&client, "first").await;
    run(&client, writer("after")).await;

    let sources = [
        (
            "restored",
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "first"}),
        ),
        ("cloned", json!({"kind": "PersistentVolumeClaim", "name": "data"})),
    ];
    for (name, source) in &sources {
        let mut claim = build::claim(name).class("local-immediate").size("64Mi").build();
        let source = serde_json::from_value(source.clone()).expect("a source");
        claim.spec.as_mut().expect("a spec").data_source = Some(source);
        create(&claims(&client), &claim).await.expect("create claim");
    }
    let script = "test $(cat /restored/file) = before && test $(cat /cloned/file) = after";
    let reader = build::pod("reader").shell(script);
    run(&client, reader.mount("restored", "/restored").mount("cloned", "/cloned").build()).await;

    for (name, _) in &sources {
        delete(&claims(&client), name).await.expect("delete claim");
        until_gone(&claims(&client), name).await.expect("claim gone");
    }
    delete_all(&cluster, &client, &["first"], "data").await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&Default::default()).await.expect("list volumes").items {
        until_gone(&volumes, volume.name()).await.expect("volume gone");
    }
    cluster.assert_nothing_left().await;
    assert_eq!(cluster.images().len(), 0, "PROV-2");
}

/// Goal: a snapshot that exists already gets a second object, whose deletion keeps what another one owns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retained_content_of_an_existing_snapshot_deletes_nothing() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    bound_claim(&client, "data").await;
    create(&snapshots(&client), &snapshot("first", json!({"persistentVolumeClaimName": "data"})))
        .await
        .expect("create");
    let first = until_ready(&client, "first").await;
    let name = first.status.and_then(|status| status.bound_volume_snapshot_content_name).expect("bound");
    let handle =
        contents(&client).get(&name).await.expect("get").status.and_then(|status| status.snapshot_handle);
    let kept = json!({
        "metadata": {"name": "kept"},
        "spec": {
            "driver": DRIVER, "deletionPolicy": "Retain", "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {"name": "second", "namespace": "default"},
        },
    });
    let kept: VolumeSnapshotContent = serde_json::from_value(kept).expect("a content");
    create(&contents(&client), &kept).await.expect("create content");
    create(&snapshots(&client), &snapshot("second", json!({"volumeSnapshotContentName": "kept"})))
        .await
        .expect("create");
    let second = until_ready(&client, "second").await;
    let bound = contents(&client).get("kept").await.expect("get content");
    assert_eq!(bound.spec.volume_snapshot_ref.uid.as_deref(), Some(second.uid()));

    delete(&snapshots(&client), "second").await.expect("delete");
    until_gone(&snapshots(&client), "second").await.expect("gone");
    let marked = contents(&client).get("kept").await.expect("the content stays");
    assert_eq!(marked.annotation(keys::SNAPSHOT_BEING_DELETED), Some("yes"));
    delete(&contents(&client), "kept").await.expect("delete content");
    until_gone(&contents(&client), "kept").await.expect("content gone");
    assert_eq!(cluster.snapshots().len(), 1, "Retain never deletes");
    delete_all(&cluster, &client, &["first"], "data").await;
}

/// Goal: a process that dies at any effect of either controller leaves nothing that its successor cannot finish.
/// Method: `bowline up` is killed at each failpoint in turn, while a snapshot is taken or deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_effect_loses_and_leaks_no_snapshot() {
    let taking = [
        "snapshot-controller.patch.volumesnapshot",
        "snapshot-controller.update.persistentvolumeclaim",
        "snapshot-controller.create.volumesnapshotcontent",
        "snapshot-controller.update-status.volumesnapshot",
        "snapshot-controller.patch.volumesnapshotcontent",
        "external-snapshotter.patch.volumesnapshotcontent",
        "external-snapshotter.CreateSnapshot.volumesnapshotcontent",
        "external-snapshotter.patch-status.volumesnapshotcontent",
    ];
    let deleting = [
        "snapshot-controller.patch.volumesnapshotcontent",
        "snapshot-controller.delete.volumesnapshotcontent",
        "snapshot-controller.patch.volumesnapshot",
        "external-snapshotter.DeleteSnapshot.volumesnapshotcontent",
        "external-snapshotter.patch-status.volumesnapshotcontent",
        "external-snapshotter.patch.volumesnapshotcontent",
    ];
    let mut cluster = Cluster::start().await;
    let client = cluster.client().await;
    bound_claim(&client, "data").await;
    let taken = || snapshot("first", json!({"persistentVolumeClaimName": "data"}));
    for point in taking.iter().flat_map(|point| ["before", "after"].map(|side| format!("{point}.{side}"))) {
        assert!(cluster.restart_with(&[("BOWLINE_FAILPOINTS", &point)]).await, "{point}");
        // The process may die before it has answered.
        let _ = create(&snapshots(&cluster.client().await), &taken()).await;
        assert!(cluster.has_ended().await, "{point} was not reached");
        cluster.restart().await;
        let client = cluster.client().await;
        create(&snapshots(&client), &taken()).await.expect("create snapshot");
        until_ready(&client, "first").await;
        until_released(&client, "data").await;
        assert_eq!(cluster.snapshots().len(), 1, "{point}: one snapshot, however often it was asked for");
        delete(&snapshots(&client), "first").await.expect("delete");
        until_gone(&snapshots(&client), "first").await.expect("gone");
        assert_eq!(cluster.snapshots().len(), 0, "{point}");
    }
    for point in deleting.iter().flat_map(|point| ["before", "after"].map(|side| format!("{point}.{side}"))) {
        let client = cluster.client().await;
        create(&snapshots(&client), &taken()).await.expect("create snapshot");
        until_ready(&client, "first").await;
        until_released(&client, "data").await;
        let bound = |s: Option<&VolumeSnapshot>| s.is_some_and(|s| s.has_finalizer(keys::SNAPSHOT_BOUND));
        until(&snapshots(&client), "first", "guarded", bound).await.expect("guarded");
        assert!(cluster.restart_with(&[("BOWLINE_FAILPOINTS", &point)]).await, "{point}");
        let _ = delete(&snapshots(&cluster.client().await), "first").await;
        assert!(cluster.has_ended().await, "{point} was not reached");
        cluster.restart().await;
        let client = cluster.client().await;
        delete(&snapshots(&client), "first").await.expect("delete");
        until_gone(&snapshots(&client), "first").await.expect("gone");
        assert_eq!(cluster.snapshots().len(), 0, "{point}: the backend's snapshot is gone");
        assert!(contents(&client).list(&Default::default()).await.expect("list").items.is_empty(), "{point}");
    }
    delete_all(&cluster, &cluster.client().await, &[], "data").await;
}
