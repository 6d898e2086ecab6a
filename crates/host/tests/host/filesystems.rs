//! What filesystems say of themselves: size, errors, identity.

use std::process::Command;

use crate::world::{World, errno, program};

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
            kernel.unmount(&target).await.unwrap();
        }
        kernel.grow_filesystem(&device, &target, fs_type).await.unwrap();
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), made_for * 2, "{fs_type}");
        kernel.unmount(&target).await.unwrap();
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
        kernel.unmount(&target).await.unwrap();
        assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 0, "{fs_type}");
        if fs_type == "ext4" {
            assert!(program("debugfs", &["-w", "-R", "ssv error_count 3", device.to_str().unwrap()]).0);
            assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 3, "not mounted");
            kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
            assert_eq!(kernel.filesystem_errors(&device, fs_type).await.unwrap(), 3, "mounted");
            kernel.unmount(&target).await.unwrap();
        }
        kernel.loop_detach(&device).await.unwrap();
    }
}

/// The UUID that is on disk.
fn identity(device: &std::path::Path) -> String {
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
        kernel.unmount(&target).await.unwrap();
        let before = identity(&device);
        kernel.renew_identity(&device, fs_type).await.unwrap();
        assert_eq!(identity(&device) != before, renewed, "{fs_type}");
        kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "kept");
        kernel.unmount(&target).await.unwrap();
        kernel.loop_detach(&device).await.unwrap();
    }
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
        kernel.unmount(&target).await.unwrap();
        kernel.loop_detach(&device).await.unwrap();
    }
}
