//! What filesystems say of themselves: size, errors, identity.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{World, errno, program, until_free};

/// Goal: the size of an xfs whose superblock may be outdated is never told.
#[tokio::test]
async fn an_xfs_that_is_still_mounted_elsewhere_has_no_size_yet() {
    let world = World::new();
    let (kernel, disk) = (&world.host.kernel, &world.host.disk);
    let (device, target) = world.mounted("image", "xfs").await;
    let size = kernel.device_size(&device).await.unwrap() * 2;
    disk.create_sparse(&world.path("image"), size).await.unwrap();
    kernel.loop_refresh(&device).await.unwrap();
    kernel.grow_filesystem(&device, &target, "xfs").await.unwrap();
    let mut elsewhere = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "echo; read -r line"])
        // Ends with this test, however that ends.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    elsewhere.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kernel.unmount(&target).await.unwrap();
    let unknown = kernel.filesystem_size(&device, "xfs").await.unwrap_err();
    assert_eq!(unknown.errno, Some(nix::libc::EBUSY), "{unknown}");
    drop(elsewhere.stdin.take());
    elsewhere.wait().unwrap();
    until_free(&device).await;
    assert_eq!(kernel.filesystem_size(&device, "xfs").await.unwrap(), size);
    kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn sizes_are_those_of_making_and_growing() {
    let world = World::new();
    let (disk, kernel) = (&world.host.disk, &world.host.kernel);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        let made_for = kernel.device_size(&device).await.unwrap();
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), made_for, "{fs_type}");
        disk.create_sparse(&world.path(fs_type), made_for * 2).await.unwrap();
        kernel.loop_refresh(&device).await.unwrap();
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), made_for, "{fs_type}");
        // A mounted ext4 grows only with a capability that not every machine gives.
        if fs_type == "ext4" {
            world.unmount(&device, &target).await;
        }
        kernel.grow_filesystem(&device, &target, fs_type).await.unwrap();
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), made_for * 2, "{fs_type}");
        world.unmount(&device, &target).await;
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), made_for * 2, "{fs_type}");
        for other in ["ext4", "xfs", "btrfs", "vfat"].iter().filter(|other| **other != fs_type) {
            assert!(kernel.filesystem_size(&device, other).await.is_err(), "{fs_type} is no {other}");
        }
        kernel.loop_detach(&device).await.unwrap();
    }
}

#[tokio::test]
async fn noted_errors_are_counted() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 0, "{fs_type}");
        if fs_type == "xfs" {
            assert!(program("xfs_io", &["-x", "-c", "shutdown", target.to_str().unwrap()]).0);
            assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 1);
        }
        world.unmount(&device, &target).await;
        assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 0, "{fs_type}");
        if fs_type == "ext4" {
            assert!(program("debugfs", &["-w", "-R", "ssv error_count 3", device.to_str().unwrap()]).0);
            assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 3, "not mounted");
            kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
            assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 3, "mounted");
            world.unmount(&device, &target).await;
        }
        kernel.loop_detach(&device).await.unwrap();
    }
}

/// The UUID that is on disk.
fn identity(device: &Path) -> String {
    let output =
        Command::new("blkid").args(["-p", "-s", "UUID", "-o", "value"]).arg(device).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

#[tokio::test]
async fn identities_are_renewed_where_they_must_be() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for (fs_type, renewed) in [("ext4", false), ("xfs", false), ("btrfs", true)] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        std::fs::write(target.join("file"), "kept").unwrap();
        if renewed {
            assert!(kernel.renew_identity(&device, fs_type).await.is_err(), "it is mounted");
        }
        world.unmount(&device, &target).await;
        let before = identity(&device);
        kernel.renew_identity(&device, fs_type).await.unwrap();
        assert_eq!(identity(&device) != before, renewed, "{fs_type}");
        kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "kept");
        world.unmount(&device, &target).await;
        kernel.loop_detach(&device).await.unwrap();
    }
}

/// A copy of a machine that lost power: what was synced last is in the log only.
#[tokio::test]
async fn a_new_identity_loses_nothing_that_was_synced() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let (_, target) = world.mounted("origin", "btrfs").await;
    std::fs::write(target.join("first"), "kept").unwrap();
    std::fs::File::open(&target).and_then(|root| Ok(rustix::fs::syncfs(root)?)).unwrap();
    let late = std::fs::File::create(target.join("late")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&late, b"kept, too", 0).unwrap();
    late.sync_all().unwrap();
    world.host.disk.copy(&world.path("origin"), &world.path("copy")).await.unwrap();

    let copy = kernel.loop_attach(&world.path("copy"), false).await.unwrap();
    let log = Command::new("btrfs").args(["inspect-internal", "dump-super"]).arg(&copy).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    let log = log.lines().find_map(|line| line.strip_prefix("log_root\t\t")).unwrap().to_owned();
    assert_ne!(log.trim(), "0", "the copy has something in its log");
    kernel.renew_identity(&copy, "btrfs").await.unwrap();
    let beside = world.dir("beside");
    kernel.mount(&copy, &beside, "btrfs", &[]).await.unwrap();
    assert_eq!(std::fs::read_to_string(beside.join("first")).unwrap(), "kept");
    assert_eq!(std::fs::read_to_string(beside.join("late")).unwrap(), "kept, too");
    kernel.unmount(&beside).await.unwrap();
    world.detach(&copy).await;
}

/// The mount table shows btrfs under a number that is not that of its device.
#[tokio::test]
async fn every_mounted_device_is_known_as_such() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), nix::libc::EBUSY, "{fs_type}");
        // Growing asks whether it is mounted; there is nothing to grow, but a way to do it.
        if fs_type != "ext4" {
            kernel.grow_filesystem(&device, &target, fs_type).await.unwrap();
        }
        world.unmount(&device, &target).await;
        kernel.loop_detach(&device).await.unwrap();
    }
}
