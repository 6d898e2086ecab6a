//! The fake machine refuses what a real kernel refuses; everything above is tested against it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_host::containers::{Binding, ContainerSpec, Containers, State};
use bowline_host::disk::Kind;
use bowline_host::fake::{self, FakeHost};
use bowline_host::kernel::{Content, Kernel};
use bowline_host::{Clock, Host, Random};
use nix::libc;

use crate::world::errno;

const DIR: &str = "/var/lib/x";

async fn machine() -> (Host, Arc<FakeHost>) {
    let (host, fake) = fake::host(7);
    for dir in ["stage", "pod-a", "pod-b"] {
        host.disk.create_dir_all(&at(dir), 0o755).await.unwrap();
    }
    host.disk.create_sparse(&at("image"), 1 << 30).await.unwrap();
    (host, fake)
}

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Attached, formatted and mounted at `stage`.
async fn staged() -> (Host, Arc<FakeHost>, PathBuf) {
    let (host, fake) = machine().await;
    let device = host.kernel.loop_attach(&at("image"), false).await.unwrap();
    host.kernel.make_filesystem(&device, "ext4", &[]).await.unwrap();
    host.kernel.mount(&device, &at("stage"), "ext4", &["noatime".into()]).await.unwrap();
    (host, fake, device)
}

#[tokio::test(start_paused = true)]
async fn time_and_randomness_come_from_the_seed() {
    let (one, _) = fake::host(1);
    let (same, _) = fake::host(1);
    let (other, _) = fake::host(2);
    assert_eq!(one.clock.now().to_string(), "2026-01-01T00:00:00Z");
    tokio::time::advance(Duration::from_secs(360)).await;
    assert_eq!(one.clock.now().to_string(), "2026-01-01T00:06:00Z");
    let uuid = one.random.uuid();
    assert_eq!(uuid, same.random.uuid());
    assert_ne!(uuid, other.random.uuid());
}

#[tokio::test(start_paused = true)]
async fn formatting_and_mounting_follow_the_rules() {
    let (host, fake) = machine().await;
    let (kernel, disk) = (&host.kernel, &host.disk);
    let device = kernel.loop_attach(&at("image"), false).await.unwrap();
    assert_eq!(kernel.loop_attach(&at("image"), false).await.unwrap(), device);
    assert_eq!(disk.kind(&device).await.unwrap(), Some(Kind::BlockDevice));
    let empty = kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap_err();
    assert_eq!(errno(&empty), libc::EINVAL);
    kernel.make_filesystem(&device, "ext4", &[]).await.unwrap();
    assert_eq!(kernel.content(&device).await.unwrap(), Content::Filesystem("ext4".into()));
    let again = kernel.make_filesystem(&device, "xfs", &[]).await.unwrap_err().to_string();
    assert!(again.contains("holds data"), "{again}");
    assert_eq!(errno(&kernel.mount(&device, &at("stage"), "xfs", &[]).await.unwrap_err()), libc::EINVAL);
    kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap();
    assert_eq!(errno(&kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap_err()), libc::EBUSY);
    assert!(kernel.make_filesystem(&device, "ext4", &[]).await.is_err());
    assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY);
    assert_eq!(fake.mounts().len(), 1);
    assert_eq!(fake.loops(), [(device.clone(), at("image"))]);
    kernel.unmount(&at("stage")).await.unwrap();
    kernel.unmount(&at("stage")).await.unwrap();
    kernel.loop_detach(&device).await.unwrap();
    kernel.loop_detach(&device).await.unwrap();
    assert!(kernel.content(&device).await.is_err(), "a free device is an error, never empty");
    assert!(fake.mounts().is_empty() && fake.loops().is_empty());
}

#[tokio::test(start_paused = true)]
async fn node_2_data_is_never_formatted() {
    let (host, fake) = machine().await;
    let device = host.kernel.loop_attach(&at("image"), false).await.unwrap();
    fake.set_content(&at("image"), Content::Other("LVM2_member".into()));
    assert!(host.kernel.make_filesystem(&device, "ext4", &[]).await.is_err());
    host.disk.write_atomic(&at("text"), b"not an image", 0o600).await.unwrap();
    let text = host.kernel.loop_attach(&at("text"), false).await.unwrap();
    assert_eq!(host.kernel.content(&text).await.unwrap(), Content::Other("unknown data".into()));
}

#[tokio::test(start_paused = true)]
async fn files_live_in_the_filesystem_that_is_mounted() {
    let (host, fake, device) = staged().await;
    let (kernel, disk) = (&host.kernel, &host.disk);
    disk.write_atomic(&at("stage/file"), b"inside", 0o600).await.unwrap();
    assert!(!fake.files().contains_key(&at("stage/file")), "not on the root filesystem");
    kernel.bind(&at("stage"), &at("pod-a"), false).await.unwrap();
    kernel.bind(&at("stage"), &at("pod-b"), true).await.unwrap();
    assert_eq!(disk.read(&at("pod-a/file")).await.unwrap(), b"inside");
    let refused = disk.write_atomic(&at("pod-b/file"), b"", 0o600).await.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    assert!(kernel.mount_at(&at("pod-b")).await.unwrap().unwrap().read_only());
    assert_eq!(disk.remove_dir(&at("pod-a")).await.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    assert_eq!(disk.space(&at("pod-a")).await.unwrap().total, 1 << 30);

    disk.create_sparse(&at("image"), 2 << 30).await.unwrap();
    kernel.loop_refresh(&device).await.unwrap();
    kernel.grow_filesystem(&device, &at("stage"), "ext4").await.unwrap();
    assert_eq!(disk.space(&at("pod-a")).await.unwrap().total, 2 << 30);

    for path in ["stage", "pod-a", "pod-b"] {
        kernel.unmount(&at(path)).await.unwrap();
        disk.remove_dir(&at(path)).await.unwrap();
    }
    kernel.loop_detach(&device).await.unwrap();

    // A copy of the image is a snapshot: later writes do not show in it.
    disk.copy(&at("image"), &at("snapshot")).await.unwrap();
    let copy = kernel.loop_attach(&at("snapshot"), true).await.unwrap();
    disk.create_dir_all(&at("restored"), 0o755).await.unwrap();
    assert_eq!(errno(&kernel.mount(&copy, &at("restored"), "ext4", &[]).await.unwrap_err()), libc::EACCES);
    kernel.mount(&copy, &at("restored"), "ext4", &["ro".into()]).await.unwrap();
    assert_eq!(disk.read(&at("restored/file")).await.unwrap(), b"inside");
}

#[tokio::test(start_paused = true)]
async fn later_mounts_hide_earlier_ones() {
    let (host, fake, device) = staged().await;
    let (kernel, disk) = (&host.kernel, &host.disk);
    disk.create_dir_all(&at("stage/sub"), 0o755).await.unwrap();
    disk.create_dir_all(&at("elsewhere/sub"), 0o755).await.unwrap();
    kernel.bind(&at("elsewhere"), &at("stage/sub"), false).await.unwrap();
    let inside = kernel.unmount(&at("stage")).await.unwrap_err();
    assert_eq!(errno(&inside), libc::EBUSY, "something is mounted inside");
    kernel.bind(&at("elsewhere"), &at("stage"), false).await.unwrap();
    assert_eq!(disk.list(&at("stage")).await.unwrap(), ["sub"]);
    assert!(disk.list(&at("stage/sub")).await.unwrap().is_empty(), "the older mount is hidden");
    kernel.unmount(&at("stage")).await.unwrap();
    kernel.unmount(&at("stage/sub")).await.unwrap();
    kernel.unmount(&at("stage")).await.unwrap();
    kernel.loop_detach(&device).await.unwrap();
    assert!(fake.mounts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn raw_devices_are_bound_to_files_only() {
    let (host, fake, device) = staged().await;
    let target = at("device");
    assert_eq!(errno(&host.kernel.bind(&device, &target, false).await.unwrap_err()), libc::ENOENT);
    assert_eq!(errno(&host.kernel.bind(&device, &at("pod-a"), false).await.unwrap_err()), libc::ENOTDIR);
    host.disk.create_file(&target).await.unwrap();
    host.kernel.bind(&device, &target, false).await.unwrap();
    assert_eq!(host.disk.kind(&target).await.unwrap(), Some(Kind::BlockDevice));
    let mount = fake.mounts().pop().unwrap();
    assert_eq!((mount.fs_type.as_str(), mount.root), ("devtmpfs", PathBuf::from("/loop0")));
}

fn container(id: &str, source: PathBuf) -> ContainerSpec {
    ContainerSpec {
        id: id.into(),
        hostname: "pod".into(),
        argv: vec!["true".into()],
        env: Vec::new(),
        working_dir: None,
        mounts: vec![Binding::new(source, "/data")],
        devices: Vec::new(),
        hidden: Vec::new(),
        security: Default::default(),
        resources: Default::default(),
        log: "/tmp/log".into(),
        message_path: None,
    }
}

#[tokio::test(start_paused = true)]
async fn containers_run_until_ended() {
    let (host, fake, device) = staged().await;
    let containers = &host.containers;
    let spec = container("uid/main/0", at("stage"));
    let first = containers.start(&spec).await.unwrap();
    assert!(matches!(first, State::Running { .. }));
    assert_eq!(containers.start(&spec).await.unwrap(), first);
    // Its mount namespace keeps the volume in use after the host has let go of it.
    host.kernel.unmount(&at("stage")).await.unwrap();
    assert_eq!(errno(&host.kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY);
    let waiting = tokio::spawn({
        let containers = containers.clone();
        async move { containers.wait("uid/main/0").await }
    });
    tokio::task::yield_now().await;
    containers.signal("uid/main/0", libc::SIGTERM).await.unwrap();
    let exit = waiting.await.unwrap().unwrap();
    assert_eq!((exit.code, exit.signal), (143, Some(15)));
    host.kernel.loop_detach(&device).await.unwrap();
    containers.remove("uid/main/0").await.unwrap();

    containers.start(&container("uid/main/1", at("pod-a"))).await.unwrap();
    fake.exit("uid/main/1", 3);
    fake.exit("uid/main/1", 4);
    assert_eq!(containers.wait("uid/main/1").await.unwrap().code, 3);
    containers.start(&container("uid/main/4", at("pod-a"))).await.unwrap();
    fake.out_of_memory("uid/main/4");
    let Some(State::Exited { exit, .. }) = containers.state("uid/main/4").await.unwrap() else {
        panic!("it runs")
    };
    assert_eq!((exit.code, exit.oom_killed), (137, true));
    let mut unknown = container("uid/main/3", at("pod-a"));
    unknown.security.capabilities.insert("NONE".into());
    let State::Exited { exit, .. } = containers.start(&unknown).await.unwrap() else { panic!("it runs") };
    assert!(exit.error.unwrap().starts_with("capability `NONE`"));
    let missing = containers.start(&container("uid/main/2", at("nowhere"))).await.unwrap();
    assert!(matches!(missing, State::Exited { exit, .. } if exit.code == 128 && exit.error.is_some()));
    assert_eq!(fake.containers().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn faults_and_reboots_are_planned() {
    let (host, fake, _device) = staged().await;
    fake.fail_next("unmount", libc::EIO);
    assert_eq!(errno(&host.kernel.unmount(&at("stage")).await.unwrap_err()), libc::EIO);
    assert_eq!(fake.mounts().len(), 1, "a planned fault does nothing");
    host.containers.start(&container("uid/main/0", at("stage"))).await.unwrap();
    fake.reboot();
    assert!(fake.mounts().is_empty() && fake.loops().is_empty());
    assert_eq!(host.containers.wait("uid/main/0").await.unwrap().code, 137);
    let device = host.kernel.loop_attach(&at("image"), false).await.unwrap();
    assert_eq!(host.kernel.content(&device).await.unwrap(), Content::Filesystem("ext4".into()));
    fake.set_tool("mkfs.xfs", false);
    assert!(!host.kernel.has_tool("mkfs.xfs") && host.kernel.has_tool("mkfs.ext4"));
    let _: (&dyn Kernel, &dyn Containers, &dyn Clock, &dyn Random) = (&*fake, &*fake, &*fake, &*fake);
}

/// As on a real disk: neither seen nor in the way, but found by who looks for it.
#[tokio::test(start_paused = true)]
async fn unfinished_files() {
    let (host, _) = machine().await;
    let disk = &host.disk;
    disk.create_file(&at("stage/.bowline-new-state")).await.unwrap();
    assert!(disk.list(&at("stage")).await.unwrap().is_empty());
    assert_eq!(disk.unfinished(&at("stage")).await.unwrap(), [".bowline-new-state"]);
    disk.remove_dir(&at("stage")).await.unwrap();
    assert!(disk.unfinished(&at("stage")).await.unwrap().is_empty());
}
