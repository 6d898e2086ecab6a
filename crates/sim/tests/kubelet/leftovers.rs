//! What a process leaves that died between two system calls, and what other programs put into a pod's directory: neither
//! keeps a pod Terminating, and nothing that is mounted or that another program made is touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_api::{Meta, PersistentVolume, Pod, build};
use bowline_host::disk::Kind;
use bowline_machinery::effect::Part;

use super::world::{KUBELET_DIR, World};

const UNFINISHED: &str = ".bowline-new-vol_data.json";

fn pod_dir(pod: &Pod) -> PathBuf {
    Path::new(KUBELET_DIR).join("pods").join(pod.uid())
}

fn volume_dir(pod: &Pod) -> PathBuf {
    pod_dir(pod).join("volumes/kubernetes.io~csi/pv-data")
}

/// A pod with a volume that runs.
async fn running(seed: u64) -> (World, Pod) {
    let world = World::with_claim(seed).await;
    let pod = build::pod("p").shell("sleep 9").mount("data", "/data").grace_seconds(5).build();
    let pod = world.pod(pod).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    (world, pod)
}

/// The process dies; the pod is deleted and its container ends meanwhile.
async fn died(world: &mut World, pod: &Pod) {
    world.stop_kubelet().await;
    world.ports = world.fresh_ports().await;
    world.delete(pod, None).await;
    world.running().iter().for_each(|id| world.fake.exit(id, 0));
}

async fn write(world: &World, path: &Path, text: &str) {
    world.host.disk.write_atomic(path, text.as_bytes(), 0o600).await.unwrap();
}

async fn comes_through(mut world: World) {
    world.start_kubelet().await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn dies_between_removing_the_record_and_its_directory() {
    let (mut world, pod) = running(21).await;
    died(&mut world, &pod).await;
    let dir = volume_dir(&pod);
    world.host.kernel.unmount(&dir.join("mount")).await.unwrap();
    world.host.disk.remove_dir(&dir.join("mount")).await.unwrap();
    world.host.disk.remove_file(&dir.join("vol_data.json")).await.unwrap();
    comes_through(world).await;
}

#[tokio::test(start_paused = true)]
async fn dies_inside_the_write_of_a_record() {
    for stage in [false, true] {
        let (mut world, pod) = running(22).await;
        died(&mut world, &pod).await;
        let dir = volume_dir(&pod);
        world.host.kernel.unmount(&dir.join("mount")).await.unwrap();
        world.host.disk.remove_dir(&dir.join("mount")).await.unwrap();
        world.host.disk.rename(&dir.join("vol_data.json"), &dir.join(UNFINISHED)).await.unwrap();
        if stage {
            let plugin = Path::new(KUBELET_DIR).join("plugins/kubernetes.io/csi/test.csi.example");
            let hash = world.host.disk.list(&plugin).await.unwrap().remove(0);
            write(&world, &plugin.join(&hash).join("vol_data.json"), "{").await;
        }
        comes_through(world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_made_up_for_by_the_volume_s_object() {
    let (mut world, pod) = running(23).await;
    died(&mut world, &pod).await;
    write(&world, &volume_dir(&pod).join("vol_data.json"), "{\"driverName\":\"te").await;
    comes_through(world).await;
}

/// NODE-3: without driver and handle only a person can unmount it, and until then it is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_mount_that_leads_to_no_volume_keeps_its_pod_and_says_so() {
    let (mut world, pod) = running(24).await;
    died(&mut world, &pod).await;
    let mount = volume_dir(&pod).join("mount");
    write(&world, &volume_dir(&pod).join("vol_data.json"), "garbage").await;
    let volume = world.ports.informers.of::<PersistentVolume>().until(|c| c.named("pv-data")).await;
    let unprotected = serde_json::json!({"metadata": {"finalizers": null}});
    let volume = world.effects().patch(Part::Main, volume.as_ref(), unprotected).await.unwrap();
    world.effects().delete(&volume, None).await.unwrap();
    world.start_kubelet().await;
    let shown = format!("`findmnt {}` shows it", mount.display());
    world.until("said", |w| w.events("FailedUnmount").iter().any(|text| text.contains(&shown))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(world.phase("p"), "gone", "still in the API");
    assert!(world.fake.mounts().iter().any(|m| m.target == mount), "still mounted");
    world.host.kernel.unmount(&mount).await.unwrap();
    world.until("gone", |w| w.phase("p") == "gone").await;
    assert_eq!(world.host.disk.kind(&pod_dir(&pod)).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn stray_files_do_not_keep_a_pod_and_are_not_removed() {
    for stray in
        ["note", "volumes/note", "volumes/kubernetes.io~csi/note", "volumes/kubernetes.io~csi/pv-data/note"]
    {
        let (world, pod) = running(25).await;
        let stray = pod_dir(&pod).join(stray);
        write(&world, &stray, "mine").await;
        world.delete(&pod, None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
        world.until("unstaged", |w| w.driver.is_idle()).await;
        let told = world.events("FailedRemovePodDirectory");
        assert!(told.iter().any(|text| text.contains("find ") && text.contains(pod.uid())), "{told:?}");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(world.host.disk.read(&stray).await.unwrap(), b"mine");
        world.host.disk.remove_file(&stray).await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        world.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mount_inside_a_pod_s_directory_is_neither_crossed_nor_forgotten() {
    let (world, pod) = running(26).await;
    let mount = pod_dir(&pod).join("volumes/by hand");
    world.host.disk.create_dir_all(&mount, 0o755).await.unwrap();
    world.host.kernel.mount_memory(&mount, None).await.unwrap();
    write(&world, &mount.join("data"), "kept").await;
    world.delete(&pod, None).await;
    world.until("said", |w| w.events("FailedRemovePodDirectory").iter().any(|t| t.contains("findmnt"))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(world.phase("p"), "gone");
    assert_eq!(world.host.disk.read(&mount.join("data")).await.unwrap(), b"kept");
    world.host.kernel.unmount(&mount).await.unwrap();
    world.until("gone", |w| w.phase("p") == "gone").await;
}

/// C1: the pods of another kubelet, and a file among them.
#[tokio::test(start_paused = true)]
async fn pods_without_a_record_are_never_changed() {
    let mut world = World::new(27).await;
    let pods = Path::new(KUBELET_DIR).join("pods");
    let foreign = pods.join("11111111-2222-3333-4444-555555555555/volumes");
    let data = foreign.join("kubernetes.io~empty-dir/cache/data.txt");
    let token = foreign.join("kubernetes.io~projected/token");
    for dir in [data.parent().unwrap(), token.as_path()] {
        world.host.disk.create_dir_all(dir, 0o755).await.unwrap();
    }
    write(&world, &data, "theirs").await;
    write(&world, &pods.join("stray file"), "").await;
    world.host.kernel.mount_memory(&token, None).await.unwrap();
    let logs = Path::new(KUBELET_DIR).join("pod-logs/ns_name_11111111-2222-3333-4444-555555555555/main");
    world.host.disk.create_dir_all(&logs, 0o755).await.unwrap();
    world.start_kubelet().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.host.disk.read(&data).await.unwrap(), b"theirs");
    assert!(world.fake.mounts().iter().any(|mount| mount.target == token), "{:?}", world.fake.mounts());
    assert_eq!(world.host.disk.kind(&logs).await.unwrap(), Some(Kind::Dir));
    let pod = world.pod(build::pod("p").shell("sleep 9").build()).await;
    world.until("a pod runs beside them", |w| w.phase("p") == "Running").await;
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    assert_eq!(world.host.disk.read(&data).await.unwrap(), b"theirs");
}
