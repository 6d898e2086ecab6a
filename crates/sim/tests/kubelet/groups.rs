//! `fsGroup`: who gives a volume to the pod's group, and when.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_api::{Meta, Pod, build};
use serde_json::{Value, json};

use super::world::{KUBELET_DIR, World};

const GID: u32 = 2000;

/// A pod with a claim, an `emptyDir` and a token, all for a group.
fn grouped(context: Value) -> Pod {
    let mut pod = build::pod("p").shell("sleep 9").mount("data", "/data").grace_seconds(1).build();
    let spec = pod.spec.as_mut().unwrap();
    spec.security_context = Some(serde_json::from_value(context).unwrap());
    let cache = serde_json::from_value(json!({"name": "cache", "emptyDir": {}})).unwrap();
    spec.volumes.get_or_insert_default().push(cache);
    let mount = serde_json::from_value(json!({"name": "cache", "mountPath": "/cache"})).unwrap();
    spec.containers[0].volume_mounts.get_or_insert_default().push(mount);
    pod
}

fn volumes(pod: &Pod) -> PathBuf {
    Path::new(KUBELET_DIR).join("pods").join(pod.uid()).join("volumes")
}

fn mount(pod: &Pod) -> PathBuf {
    volumes(pod).join("kubernetes.io~csi/pv-data/mount")
}

#[tokio::test(start_paused = true)]
async fn volumes_are_given_to_the_group_before_containers_start() {
    let world = World::with_claim(31).await;
    let pod = world.pod(grouped(json!({"fsGroup": GID}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.fake.group(&mount(&pod)), Some(GID));
    assert_eq!(world.fake.group(&volumes(&pod).join("kubernetes.io~empty-dir/cache")), Some(GID));
    let projected = volumes(&pod).join("kubernetes.io~projected");
    let token = projected.join(&world.host.disk.list(&projected).await.unwrap()[0]).join("token");
    let token = world.host.disk.canonical(&token).await.unwrap();
    assert_eq!(world.fake.group(&token), Some(GID));
    assert_eq!(world.driver.groups(), ["", ""], "a driver without the capability is not asked");
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_can_gives_the_volume_to_the_group_itself() {
    let mut world = World::new(32).await;
    world.driver.set_mount_group();
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = world.pod(grouped(json!({"fsGroup": GID}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.driver.groups(), ["2000", "2000"], "stage and publish");
    assert_eq!(world.fake.group(&mount(&pod)), None);
}

#[tokio::test(start_paused = true)]
async fn a_long_walk_is_reported_and_ends_with_its_pod() {
    let world = World::with_claim(33).await;
    world.fake.set_walk_takes(Duration::from_secs(200));
    let pod = world.pod(grouped(json!({"fsGroup": GID}))).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(world.events("VolumePermissionChangeInProgress").is_empty(), "not yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!world.events("VolumePermissionChangeInProgress").is_empty());
    assert_eq!(world.running().len(), 0);
    world.delete(&pod, None).await;
    world.fake.set_walk_takes(Duration::ZERO);
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}
