//! A disk that volumes have filled is freed by deleting them.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bowline_api::{PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment, build};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use support::objects::{create, delete, until_gone, until_phase};
use support::{Cluster, PATIENCE};

const DISK: u64 = 400 << 20;
/// Pause between two looks at the disk, which nobody tells of.
const LOOK: Duration = Duration::from_millis(100);

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("run a tool");
    assert!(status.success(), "{program} {arguments:?}");
}

/// A filesystem of its own below the data directory; the cluster takes it away at the end.
fn scratch_with_disk() -> tempfile::TempDir {
    let scratch = tempfile::Builder::new().prefix("bowline-full-").tempdir().expect("scratch directory");
    let (image, data) = (scratch.path().join("disk.img"), scratch.path().join("data"));
    std::fs::File::create(&image).and_then(|file| file.set_len(DISK)).expect("image of the disk");
    std::fs::create_dir(&data).expect("data directory");
    let (image, data) = (image.display().to_string(), data.display().to_string());
    run("mkfs.ext4", &["-q", "-m", "0", &image]);
    run("mount", &["-o", "loop", &image, &data]);
    scratch
}

fn free(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).expect("space of the disk");
    stat.f_bavail * stat.f_frsize
}

/// Takes whatever is left of a disk.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).expect("filler");
    for size in [1 << 20, 4096, 512] {
        while file.write_all(&vec![1; size]).and_then(|()| file.sync_data()).is_ok() {}
    }
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object
}

async fn bound_volume(client: &Client) -> String {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    claims.get("data").await.expect("get claim").spec.and_then(|s| s.volume_name).expect("bound")
}

/// Nothing of the volume is left, neither in the API nor on the disk.
async fn until_taken_down(cluster: &Cluster, client: &Client, volume: &str) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    until_gone(&pods, "filler").await.expect("pod gone");
    until_gone(&claims, "data").await.expect("claim gone");
    until_gone::<PersistentVolume>(&Api::all(client.clone()), volume).await.expect("volume gone");
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    assert_eq!(attachments.list(&Default::default()).await.expect("list attachments").items.len(), 0);
    assert_eq!(cluster.images().len(), 0, "the image is gone");
}

/// The API server takes creates again, at the latest when it has heard of the room.
async fn until_created(maps: &Api<ConfigMap>, name: &str) {
    let patience = Instant::now() + PATIENCE;
    while let Err(error) = maps.create(&PostParams::default(), &config_map(name)).await {
        assert!(Instant::now() < patience, "no create in time: {error}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn fill_with_volume(cluster: &Cluster, client: &Client) -> String {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&claims, &build::claim("data").size("352Mi").build()).await.expect("create claim");
    let script = "dd if=/dev/zero of=/data/fill bs=1M 2>/dev/null; sync; echo full; exec sleep 3600";
    let pod = build::pod("filler").shell(script).mount("data", "/data").grace_seconds(1);
    create(&pods, &pod.build()).await.expect("create pod");
    until_phase(client, "filler", "Running").await.expect("running");
    let patience = Instant::now() + PATIENCE;
    while free(&cluster.data_dir()) > 60 << 20 {
        assert!(Instant::now() < patience, "{} bytes are free", free(&cluster.data_dir()));
        tokio::time::sleep(LOOK).await;
    }
    bound_volume(client).await
}

/// C3: below 64 MiB the store took no write that teardown needs. With `others` the rest of the disk is taken, too.
async fn journey(others: bool) {
    let mut cluster = Cluster::start_in(scratch_with_disk()).await;
    let client = cluster.client().await;
    // A start makes it again, if there is room.
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.delete("local-immediate", &DeleteParams::default()).await.expect("delete a class");
    let volume = fill_with_volume(&cluster, &client).await;
    if !others {
        cluster.restart().await;
    }
    let client = cluster.client().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    if others {
        fill(&cluster.data_dir().join("others"));
        println!("{} bytes are free", free(&cluster.data_dir()));
    }
    let refused = maps.create(&PostParams::default(), &config_map("refused")).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("a create on a full disk: {refused:?}") };
    assert_eq!((status.code, status.reason.as_str()), (507, "InsufficientStorage"), "{status:?}");

    delete::<Pod>(&Api::namespaced(client.clone(), "default"), "filler").await.expect("delete pod");
    delete::<PersistentVolumeClaim>(&Api::namespaced(client.clone(), "default"), "data")
        .await
        .expect("delete claim");
    until_taken_down(&cluster, &client, &volume).await;
    until_created(&maps, "after").await;
    assert!(status.message.contains("Delete volumes or make room"), "{}", status.message);
    assert!(free(&cluster.data_dir()) > 300 << 20, "{} bytes are free", free(&cluster.data_dir()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_filled_the_disk_can_be_deleted() {
    journey(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_can_be_deleted_when_not_a_byte_is_free() {
    journey(true).await;
}
