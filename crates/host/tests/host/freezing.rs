//! Frozen filesystems: nothing is written to them, and a copy of their image is whole.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::libc;

use crate::world::{World, errno};

/// Long enough for a write that is not held back.
const HELD_BACK: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn writes_wait_until_thawed() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        kernel.thaw(&target).await.unwrap();
        kernel.freeze(&target).await.unwrap();
        assert_eq!(errno(&kernel.freeze(&target).await.unwrap_err()), libc::EBUSY, "{fs_type}");
        let (done, wait) = mpsc::channel();
        let file = target.join("file");
        std::thread::spawn(move || done.send(std::fs::write(file, "at last")));
        assert!(wait.recv_timeout(HELD_BACK).is_err(), "{fs_type}: the write was not held back");
        kernel.thaw(&target).await.unwrap();
        wait.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "at last");
        kernel.thaw(&target).await.unwrap();
        kernel.unmount(&target).await.unwrap();
        world.detach(&device).await;
    }
}

/// The call takes any directory, and would freeze the filesystem that holds it.
#[tokio::test]
async fn only_what_is_mounted_is_frozen() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let (device, target) = world.mounted("image", "ext4").await;
    std::fs::create_dir(target.join("sub")).unwrap();
    for path in [world.dir("plain"), target.join("sub")] {
        assert_eq!(errno(&kernel.freeze(&path).await.unwrap_err()), libc::EINVAL, "{}", path.display());
        kernel.thaw(&path).await.unwrap();
    }
    assert_eq!(errno(&kernel.freeze(&world.path("none")).await.unwrap_err()), libc::ENOENT);
    kernel.thaw(&world.path("none")).await.unwrap();
    assert_eq!(errno(&kernel.freeze(Path::new("/proc")).await.unwrap_err()), libc::EOPNOTSUPP);
    std::fs::write(target.join("file"), "nothing is frozen").unwrap();
    kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

/// A process that dies between freezing and thawing leaves this behind.
#[tokio::test]
async fn a_frozen_filesystem_can_be_unmounted_and_stays_frozen() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        kernel.freeze(&target).await.unwrap();
        kernel.unmount(&target).await.unwrap();
        assert!(kernel.mount_at(&target).await.unwrap().is_none());
        assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY, "{fs_type}");
        kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        assert_eq!(errno(&kernel.freeze(&target).await.unwrap_err()), libc::EBUSY, "{fs_type}");
        kernel.thaw(&target).await.unwrap();
        std::fs::write(target.join("file"), "alive").unwrap();
        kernel.unmount(&target).await.unwrap();
        world.detach(&device).await;
    }
}

/// What was written before the freeze is in the copy without any sync, and the copy needs no repair.
#[tokio::test]
async fn a_copy_of_a_frozen_filesystem_is_whole() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        let content: Vec<u8> = (0..3 << 20).map(|at: u32| (at >> 9) as u8).collect();
        std::fs::write(target.join("file"), &content).unwrap();
        let copy = world.path(&format!("{fs_type}.copy"));
        kernel.freeze(&target).await.unwrap();
        let copied = disk.copy(&world.path(fs_type), &copy).await;
        kernel.thaw(&target).await.unwrap();
        copied.unwrap();
        std::fs::write(target.join("file"), "changed afterwards").unwrap();

        let clone = kernel.loop_attach(&copy, false).await.unwrap();
        kernel.check_filesystem(&clone, fs_type).await.unwrap();
        kernel.renew_identity(&clone, fs_type).await.unwrap();
        let options = if fs_type == "xfs" { vec!["nouuid".to_string()] } else { Vec::new() };
        let restored = world.dir(&format!("{fs_type}.restored"));
        // Beside its source, which is mounted as well.
        kernel.mount(&clone, &restored, fs_type, &options).await.unwrap();
        assert!(std::fs::read(restored.join("file")).unwrap() == content, "{fs_type}");
        assert_eq!(std::fs::read(target.join("file")).unwrap(), b"changed afterwards");
        for (target, device) in [(&restored, &clone), (&target, &device)] {
            kernel.unmount(target).await.unwrap();
            world.detach(device).await;
        }
    }
}
