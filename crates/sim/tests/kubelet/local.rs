//! Volumes that the kubelet fills itself: from the API to the files that a container sees.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_api::{ConfigMap, Meta, Pod, Secret, ServiceAccount, build};
use bowline_machinery::effect::Part;
use serde_json::{Value, json};

use super::world::{KUBELET_DIR, World};

async fn world() -> World {
    let mut world = World::new(5).await;
    world.start_kubelet().await;
    world
}

/// A pod with one volume called `v`.
fn pod(name: &str, source: Value) -> Pod {
    let mut pod = build::pod(name).shell("sleep 9").build();
    let spec = pod.spec.as_mut().unwrap();
    let mut volume = json!({"name": "v"});
    volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    spec.volumes = Some(vec![serde_json::from_value(volume).unwrap()]);
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    spec.containers[0].volume_mounts = Some(serde_json::from_value(mount).unwrap());
    pod
}

fn place(pod: &Pod, plugin: &str) -> PathBuf {
    Path::new(KUBELET_DIR).join("pods").join(pod.uid()).join("volumes").join(plugin)
}

async fn read(world: &World, path: &Path) -> String {
    let content = world.host.disk.read(path).await;
    content.map_or_else(|error| error.to_string(), |bytes| String::from_utf8(bytes).unwrap())
}

/// Waits until a file has this content.
async fn until_holds(world: &World, path: &Path, wanted: &str) {
    let waiting = async {
        while read(world, path).await != wanted {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(found.is_ok(), "{} holds {:?}", path.display(), read(world, path).await);
}

async fn config_map(world: &World, name: &str, data: Value) -> ConfigMap {
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": data});
    world.effects().create(&serde_json::from_value(map).unwrap()).await.unwrap()
}

async fn take_down(world: &World, pod: &Pod) {
    world.delete(pod, None).await;
    world.until("gone", |w| w.phase(pod.name()) == "gone").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_config_map_and_follows_its_changes() {
    let world = world().await;
    let pod = world.pod(pod("p", json!({"configMap": {"name": "settings"}}))).await;
    let text = "MountVolume.SetUp failed for volume \"v\" : configmap \"settings\" not found";
    let said = |w: &World| w.events("FailedMount").iter().filter(|event| *event == text).count();
    world.until("said", |w| said(w) == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((world.phase("p").as_str(), world.running().len()), ("Pending", 0));
    assert_eq!((said(&world), world.events("FailedMount").len()), (1, 1), "one event, whatever repeats it");

    let map = config_map(&world, "settings", json!({"colour": "red"})).await;
    world.until("goes on by itself", |w| w.phase("p") == "Running").await;
    let dir = place(&pod, "kubernetes.io~configmap").join("v");
    until_holds(&world, &dir.join("colour"), "red").await;
    world.effects().patch(Part::Main, &map, json!({"data": {"colour": "blue", "size": "9"}})).await.unwrap();
    until_holds(&world, &dir.join("colour"), "blue").await;
    until_holds(&world, &dir.join("size"), "9").await;
    assert!(world.fake.mounts().iter().all(|mount| mount.target != dir), "a config map is no secret");

    world.effects().delete(&map, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(read(&world, &dir.join("colour")).await, "blue", "what is there stays");
    assert_eq!(world.running().len(), 1);
    take_down(&world, &pod).await;
}

/// LOCAL-2.
#[tokio::test(start_paused = true)]
async fn secrets_and_tokens_live_in_memory() {
    let world = world().await;
    let secret =
        json!({"metadata": {"name": "s", "namespace": "default"}, "stringData": {"password": "xyzzy"}});
    world.effects().create::<Secret>(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let pod = world.pod(pod("p", json!({"secret": {"secretName": "s"}}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let secret = place(&pod, "kubernetes.io~secret").join("v");
    assert_eq!(read(&world, &secret.join("password")).await, "xyzzy");
    let token = token_dir(&world, &pod).await;
    for dir in [&secret, &token] {
        let mounts = world.fake.mounts();
        assert!(mounts.iter().any(|mount| mount.target == *dir && mount.fs_type == "tmpfs"), "{mounts:?}");
    }
    let on_disk = world.fake.files().into_values().any(|content| content.ends_with(b"xyzzy"));
    assert!(!on_disk);
    take_down(&world, &pod).await;
}

async fn token_dir(world: &World, pod: &Pod) -> PathBuf {
    let dir = place(pod, "kubernetes.io~projected");
    let names = world.host.disk.list(&dir).await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    dir.join(&names[0])
}

/// LOCAL-3.
#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_at_four_fifths_of_its_life() {
    let world = world().await;
    let pod = world.pod(build::pod("p").shell("sleep 9").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let dir = token_dir(&world, &pod).await;
    assert_eq!(read(&world, &dir.join("namespace")).await, "default");
    assert_eq!(read(&world, &dir.join("ca.crt")).await, "authority");
    let first = read(&world, &dir.join("token")).await;
    assert_eq!(first.split('.').count(), 3, "a signed token");
    // 3607 seconds are 2885.6 and a fifth.
    tokio::time::sleep(Duration::from_secs(2870)).await;
    assert_eq!(read(&world, &dir.join("token")).await, first, "too early");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let second = read(&world, &dir.join("token")).await;
    assert_ne!(second, first);
    tokio::time::sleep(Duration::from_secs(2900)).await;
    assert_ne!(read(&world, &dir.join("token")).await, second, "and again");
    take_down(&world, &pod).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_account_is_told_and_goes_on() {
    let mut world = World::new(5).await;
    let accounts = world.ports.informers.of::<ServiceAccount>();
    let key = bowline_api::ObjectKey::new("default", "default");
    let account = accounts.until(|cache| cache.get(&key)).await;
    let pod = world.pod(build::pod("p").shell("sleep 9").build()).await;
    world.effects().delete(account.as_ref(), None).await.unwrap();
    world.start_kubelet().await;
    let said = |w: &World| {
        w.events("FailedMount")
            .iter()
            .any(|text| text.ends_with("failed to fetch token: serviceaccounts \"default\" not found"))
    };
    world.until("told", said).await;
    let mut again = (*account).clone();
    again.metadata = Default::default();
    again.metadata.name = Some("default".into());
    again.metadata.namespace = Some("default".into());
    world.effects().create(&again).await.unwrap();
    world.until("running", |w| w.phase("p") == "Running").await;
    take_down(&world, &pod).await;
}

#[tokio::test(start_paused = true)]
async fn labels_are_files_that_change() {
    let world = world().await;
    let labels = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    let pod = world.pod(pod("p", json!({"downwardAPI": {"items": labels}}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let file = place(&pod, "kubernetes.io~downward-api").join("v/labels");
    assert_eq!(read(&world, &file).await, "");
    world.effects().patch(Part::Main, &pod, json!({"metadata": {"labels": {"app": "web"}}})).await.unwrap();
    until_holds(&world, &file, "app=\"web\"").await;
    take_down(&world, &pod).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_dir_in_memory_has_its_size_and_goes_with_an_orderly_stop() {
    let mut world = world().await;
    let memory = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}});
    let pod = world.pod(pod("p", memory)).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let dir = place(&pod, "kubernetes.io~empty-dir").join("v");
    let mount = world.fake.mounts().into_iter().find(|mount| mount.target == dir).unwrap();
    assert_eq!(mount.options, ["rw", "size=1048576"]);
    assert!(world.kubelet.as_ref().unwrap().drain(Duration::from_secs(30)).await);
    assert!(world.fake.mounts().is_empty(), "{:?}", world.fake.mounts());
    world.stop_kubelet().await;
    world.start_kubelet().await;
    world.until("mounted again", |w| w.fake.mounts().iter().any(|mount| mount.target == dir)).await;
    take_down(&world, &pod).await;
}

/// What a container wrote outlives a restart of the kubelet; what it reads is brought up to date by the next one.
#[tokio::test(start_paused = true)]
async fn volumes_are_found_again() {
    let mut world = world().await;
    let pod = world.pod(pod("p", json!({"emptyDir": {}}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let dir = place(&pod, "kubernetes.io~empty-dir").join("v");
    world.host.disk.write_atomic(&dir.join("file"), b"kept", 0o644).await.unwrap();
    let token = token_dir(&world, &pod).await.join("token");
    let before = read(&world, &token).await;
    world.stop_kubelet().await;
    world.start_kubelet().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(read(&world, &dir.join("file")).await, "kept");
    assert_ne!(read(&world, &token).await, before, "nobody remembers the old one");
    let mounts = world.fake.mounts();
    assert_eq!(mounts.len(), 1, "the same one: {mounts:?}");
    take_down(&world, &pod).await;
}
