//! Journeys on a real kernel: what was written is read back, and nothing is left.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod account;
mod enlarge;
mod support;

use bowline_api::{
    PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment, build, volume,
};
use bowline_drivers::local::NAME as DRIVER;
use kube::{Api, Client};
use serde_json::json;
use support::Cluster;
use support::objects::{create, delete, until, until_gone, until_phase};

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

fn claims(client: &Client) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), "default")
}

/// Runs a pod to its successful end and removes it.
async fn run_pod(client: &Client, pod: Pod) {
    let name = pod.metadata.name.clone().expect("named");
    create(&pods(client), &pod).await.expect("create pod");
    let done =
        |p: Option<&Pod>| p.is_some_and(|p| matches!(bowline_api::pod::phase(p), "Succeeded" | "Failed"));
    until(&pods(client), &name, "to end", done).await.expect("pod ends");
    let ended = pods(client).get(&name).await.expect("get pod");
    assert_eq!(bowline_api::pod::phase(&ended), "Succeeded", "{:?}", ended.status);
    delete(&pods(client), &name).await.expect("delete pod");
    until_gone(&pods(client), &name).await.expect("pod gone");
}

/// Deletes the claim and waits for volume and attachments to follow.
async fn delete_claim(client: &Client, name: &str) {
    let volume =
        claims(client).get(name).await.expect("get claim").spec.and_then(|s| s.volume_name).expect("bound");
    delete(&claims(client), name).await.expect("delete claim");
    until_gone(&claims(client), name).await.expect("claim gone");
    until_gone::<PersistentVolume>(&Api::all(client.clone()), &volume).await.expect("volume gone");
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    assert_eq!(attachments.list(&Default::default()).await.expect("list attachments").items.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filesystems_keep_what_was_written() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    for fs_type in ["ext4", "xfs"] {
        let class = build::class(fs_type, DRIVER).wait_for_consumer().fs_type(fs_type).build();
        create::<StorageClass>(&Api::all(client.clone()), &class).await.expect("create class");
        let claim = build::claim(fs_type).class(fs_type).size("512Mi").build();
        create(&claims(&client), &claim).await.expect("create claim");

        let script = "echo kept > /data/file && stat -f -c %T /data > /data/type && sync";
        run_pod(&client, build::pod("writer").shell(script).mount(fs_type, "/data").build()).await;
        assert_eq!(cluster.images().len(), 1);
        let expected = if fs_type == "ext4" { "ext2/ext3" } else { "xfs" };
        let script = format!("test $(cat /data/file) = kept && test $(cat /data/type) = {expected}");
        run_pod(&client, build::pod("reader").shell(&script).mount(fs_type, "/data").build()).await;

        delete_claim(&client, fs_type).await;
        assert_eq!(cluster.images().len(), 0, "policy Delete removes the image file");
        cluster.assert_nothing_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raw_device_is_presented_unformatted() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    create(&claims(&client), &build::claim("raw").block().size("64Mi").build()).await.expect("create claim");
    let script =
        "test -b /dev/data && printf bytes | dd of=/dev/data bs=512 seek=3 conv=sync 2>/dev/null && sync";
    run_pod(&client, build::pod("writer").shell(script).device("raw", "/dev/data").build()).await;
    let script = "test $(dd if=/dev/data bs=512 skip=3 count=1 2>/dev/null | head -c 5) = bytes && \
                  test $(dd if=/dev/data bs=512 count=1 2>/dev/null | tr -d '\\0' | wc -c) = 0";
    run_pod(&client, build::pod("reader").shell(script).device("raw", "/dev/data").build()).await;
    delete_claim(&client, "raw").await;
    cluster.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_gets_the_volume_that_it_describes_itself() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let script =
        "test $(stat -f -c %T /own) = xfs && echo kept > /own/file && sync && test $(cat /own/file) = kept";
    let mut pod = build::pod("own").shell(script).build();
    let spec = pod.spec.as_mut().expect("a spec");
    let csi = json!({"driver": DRIVER, "fsType": "xfs", "volumeAttributes": {"size": "512Mi"}});
    let volume = serde_json::from_value(json!({"name": "own", "csi": csi})).expect("a volume");
    spec.volumes.get_or_insert_default().push(volume);
    let mount = serde_json::from_value(json!({"name": "own", "mountPath": "/own"})).expect("a mount");
    spec.containers[0].volume_mounts.get_or_insert_default().push(mount);
    run_pod(&client, pod).await;
    // A pod that has ended leaves the API at once; its volumes are taken down meanwhile.
    cluster.assert_nothing_left().await;
    assert_eq!(cluster.images().len(), 0, "it goes with its pod");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retain_keeps_the_volume() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let class = build::class("kept", DRIVER).reclaim("Retain").build();
    create::<StorageClass>(&Api::all(client.clone()), &class).await.expect("create class");
    create(&claims(&client), &build::claim("data").class("kept").size("64Mi").build())
        .await
        .expect("create claim");
    let bound =
        |c: Option<&PersistentVolumeClaim>| c.is_some_and(|c| bowline_api::volume::claim_phase(c) == "Bound");
    until(&claims(&client), "data", "Bound", bound).await.expect("bound without a pod: Immediate");
    let volume =
        claims(&client).get("data").await.expect("get").spec.and_then(|s| s.volume_name).expect("bound");

    delete(&claims(&client), "data").await.expect("delete claim");
    until_gone(&claims(&client), "data").await.expect("claim gone");
    let released =
        |v: Option<&PersistentVolume>| v.is_some_and(|v| bowline_api::volume::volume_phase(v) == "Released");
    until(&Api::all(client.clone()), &volume, "Released", released).await.expect("released");
    assert_eq!(cluster.images().len(), 1, "PROV-3: Retain never deletes");
    cluster.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_it_stopped() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client().await;
    create(&claims(&client), &build::claim("data").size("64Mi").build()).await.expect("create claim");
    let script = "echo $$ >> /data/starts; exec sleep 3600";
    let pod =
        build::pod("long").shell(script).mount("data", "/data").grace_seconds(1).restart_policy("Always");
    create(&pods(&client), &pod.build()).await.expect("create pod");
    until_phase(&client, "long", "Running").await.expect("running");
    let container = |pod: &Pod| {
        let status = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        status.and_then(|all| all.first()).and_then(|c| c.container_id.clone()).expect("container id")
    };
    let before = container(&pods(&client).get("long").await.expect("get"));

    // NODE-3: kill -9 disturbs no running pod.
    cluster.restart().await;
    let client = cluster.client().await;
    until_phase(&client, "long", "Running").await.expect("still running");
    assert_eq!(container(&pods(&client).get("long").await.expect("get")), before, "the same container");

    // Ctrl-C leaves the machine clean; the next start brings the pod back.
    assert!(cluster.interrupt().await, "Ctrl-C ends with success");
    cluster.assert_nothing_mounted();
    cluster.restart().await;
    let client = cluster.client().await;
    let another = move |p: Option<&Pod>| {
        p.is_some_and(|p| {
            let status =
                p.status.as_ref().and_then(|s| s.container_statuses.as_ref()).and_then(|all| all.first());
            status.is_some_and(|c| {
                c.container_id.as_ref().is_some_and(|id| *id != before)
                    && c.state.as_ref().is_some_and(|s| s.running.is_some())
            })
        })
    };
    until(&pods(&client), "long", "to run again", another).await.expect("runs again");
    delete(&pods(&client), "long").await.expect("delete pod");
    until_gone(&pods(&client), "long").await.expect("pod gone");
    delete_claim(&client, "data").await;
    cluster.assert_nothing_left().await;
}

/// A pod's `fsGroup` reaches the driver, which gives the volume to it; the kubelet's own volumes are given to it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_belong_to_the_group_of_the_pod() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    create(&claims(&client), &build::claim("data").size("64Mi").build()).await.expect("create claim");
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let script = format!(
        "test $(stat -c %g /data) = 2000 && test $(stat -c %g /cache) = 2000 && touch /cache/new && \
         test $(stat -c %g /cache/new) = 2000 && test $(stat -Lc %g:%a {token}) = 2000:640"
    );
    let mut pod = build::pod("grouped").shell(&script).mount("data", "/data").build();
    let spec = pod.spec.as_mut().expect("spec");
    let json = serde_json::json!({"fsGroup": 2000, "fsGroupChangePolicy": "OnRootMismatch"});
    spec.security_context = Some(serde_json::from_value(json).expect("context"));
    let cache = serde_json::json!({"name": "cache", "emptyDir": {}});
    spec.volumes.get_or_insert_default().push(serde_json::from_value(cache).expect("volume"));
    let mount = serde_json::json!({"name": "cache", "mountPath": "/cache"});
    let mounts = spec.containers[0].volume_mounts.get_or_insert_default();
    mounts.push(serde_json::from_value(mount).expect("mount"));
    run_pod(&client, pod).await;
    delete_claim(&client, "data").await;
    cluster.assert_nothing_left().await;
}

/// Goal: two pods that run at the same time use one volume, without any attachment.
/// Method: each waits for what the other writes, so neither could succeed alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pods_share_a_directory() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let claim =
        build::claim("common").class("share").access_mode(volume::READ_WRITE_MANY).size("64Mi").build();
    create(&claims(&client), &claim).await.expect("create claim");
    let wait = |file: &str| format!("until test -s /data/{file}; do sleep 0.05; done");
    let scripts = [
        (
            "asking",
            format!("echo question > /data/question && {} && grep -q answer /data/answer", wait("answer")),
        ),
        (
            "answering",
            format!("{} && grep -q question /data/question && echo answer > /data/answer", wait("question")),
        ),
    ];
    for (name, script) in &scripts {
        let pod = build::pod(name).shell(script).mount("common", "/data").build();
        create(&pods(&client), &pod).await.expect("create pod");
    }
    for (name, _) in &scripts {
        until_phase(&client, name, "Succeeded").await.expect("both files were seen");
    }
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    assert_eq!(attachments.list(&Default::default()).await.expect("list attachments").items.len(), 0);
    assert_eq!(cluster.shares().len(), 1);
    for (name, _) in &scripts {
        delete(&pods(&client), name).await.expect("delete pod");
        until_gone(&pods(&client), name).await.expect("pod gone");
    }
    delete_claim(&client, "common").await;
    assert_eq!(cluster.shares().len(), 0, "policy Delete removes the directory");
    cluster.assert_nothing_left().await;
}
