//! Trouble on the fake machine: frozen, full, read-only, twice the same. What a test forgets must show.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_host::disk::{Extent, Space};
use bowline_host::fake::{self, FakeHost, FakeNode};
use bowline_host::kernel::{Content, LoopDevice, Queue};
use nix::libc;

use crate::world::errno;

fn at(name: &str) -> PathBuf {
    Path::new("/var/lib/y").join(name)
}

/// A machine with an image that has this filesystem, mounted at `stage`.
async fn staged(fs_type: &str) -> (Host, Arc<FakeHost>, PathBuf) {
    let (host, fake) = fake::host(3);
    for dir in ["stage", "other", "bound"] {
        host.disk.create_dir_all(&at(dir), 0o755).await.unwrap();
    }
    host.disk.create_sparse(&at("image"), 1 << 30).await.unwrap();
    let device = host.kernel.loop_attach(&at("image"), false).await.unwrap();
    host.kernel.make_filesystem(&device, fs_type, &[]).await.unwrap();
    host.kernel.mount(&device, &at("stage"), fs_type, &[]).await.unwrap();
    (host, fake, device)
}

#[tokio::test(start_paused = true)]
async fn a_frozen_filesystem_refuses_writes_until_thawed() {
    let (host, fake, device) = staged("ext4").await;
    let (disk, kernel) = (&host.disk, &host.kernel);
    disk.write_atomic(&at("stage/file"), b"before", 0o600).await.unwrap();
    kernel.bind(&at("stage"), &at("bound"), false).await.unwrap();
    assert_eq!(errno(&kernel.freeze(&at("other")).await.unwrap_err()), libc::EINVAL, "nothing is mounted");
    assert_eq!(errno(&kernel.freeze(Path::new("/dev")).await.unwrap_err()), libc::EOPNOTSUPP);
    kernel.thaw(&at("other")).await.unwrap();
    kernel.thaw(&at("stage")).await.unwrap();
    kernel.freeze(&at("stage")).await.unwrap();
    assert_eq!(errno(&kernel.freeze(&at("bound")).await.unwrap_err()), libc::EBUSY);
    assert_eq!(fake.frozen(), [at("stage"), at("bound")]);
    let refused =
        |result: std::io::Result<()>| assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    refused(disk.write_atomic(&at("stage/file"), b"during", 0o600).await);
    refused(disk.write_atomic(&at("bound/new"), b"during", 0o600).await);
    refused(disk.create_dir_all(&at("stage/dir"), 0o755).await);
    refused(disk.create_sparse(&at("stage/file"), 1 << 20).await);
    refused(disk.remove_file(&at("stage/file")).await);
    refused(disk.rename(&at("stage/file"), &at("stage/moved")).await);
    refused(disk.set_label(&at("stage/file"), "x", b"").await);
    refused(disk.set_group(&at("stage"), 5).await);
    assert_eq!(disk.read(&at("stage/file")).await.unwrap(), b"before");
    assert_eq!(errno(&kernel.grow_filesystem(&device, &at("stage"), "ext4").await.unwrap_err()), libc::EBUSY);

    // Unmounting works, and changes nothing: the device is not free, and the next mount is frozen.
    kernel.unmount(&at("bound")).await.unwrap();
    kernel.unmount(&at("stage")).await.unwrap();
    assert_eq!(errno(&kernel.loop_detach(&device).await.unwrap_err()), libc::EBUSY);
    kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap();
    refused(disk.write_atomic(&at("stage/file"), b"during", 0o600).await);
    kernel.thaw(&at("stage")).await.unwrap();
    disk.write_atomic(&at("stage/file"), b"after", 0o600).await.unwrap();

    kernel.freeze(&at("stage")).await.unwrap();
    fake.reboot();
    assert!(fake.frozen().is_empty());
    let device = kernel.loop_attach(&at("image"), false).await.unwrap();
    kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap();
    disk.write_atomic(&at("stage/file"), b"rebooted", 0o600).await.unwrap();
    assert!(disk.read(&at("stage/file")).await.is_ok());
}

/// Nodes of a simulation share one machine; one of them loses power, the others notice nothing.
#[tokio::test(start_paused = true)]
async fn one_node_loses_power() {
    let (host, fake, _device) = staged("ext4").await;
    let (disk, kernel) = (&host.disk, &host.kernel);
    disk.write_atomic(&at("stage/file"), b"kept", 0o600).await.unwrap();
    disk.create_sparse(&at("second"), 1 << 30).await.unwrap();
    disk.create_sparse(&at("shown-nowhere"), 1 << 30).await.unwrap();
    disk.create_sparse(&at("used"), 1 << 30).await.unwrap();
    let second = kernel.loop_attach(&at("second"), false).await.unwrap();
    kernel.make_filesystem(&second, "ext4", &[]).await.unwrap();
    kernel.mount(&second, &at("other"), "ext4", &[]).await.unwrap();
    kernel.loop_attach(&at("shown-nowhere"), false).await.unwrap();
    kernel.loop_attach(&at("used"), false).await.unwrap();

    let used = at("used");
    fake.reboot_node(&FakeNode {
        dir: &at("stage"),
        containers: &[],
        used_elsewhere: &|image| image == used,
    });
    let targets: Vec<PathBuf> = fake.mounts().into_iter().map(|mount| mount.target).collect();
    assert_eq!(targets, [at("other")]);
    let images: Vec<PathBuf> = fake.loops().into_iter().map(|(_, image)| image).collect();
    assert_eq!(images, [at("second"), at("used")]);
    let device = kernel.loop_attach(&at("image"), false).await.unwrap();
    kernel.mount(&device, &at("stage"), "ext4", &[]).await.unwrap();
    assert_eq!(disk.read(&at("stage/file")).await.unwrap(), b"kept");
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_the_content_and_the_identity_of_its_moment() {
    for (fs_type, options, refusal) in [
        ("ext4", &[][..], None),
        ("xfs", &[][..], Some(libc::EINVAL)),
        ("xfs", &["nouuid".to_string()][..], None),
        ("btrfs", &[][..], Some(libc::EEXIST)),
    ] {
        let (host, fake, _device) = staged(fs_type).await;
        let (disk, kernel) = (&host.disk, &host.kernel);
        disk.write_atomic(&at("stage/file"), b"then", 0o600).await.unwrap();
        disk.set_group(&at("stage"), 9).await.unwrap();
        disk.copy(&at("image"), &at("copy")).await.unwrap();
        disk.write_atomic(&at("stage/file"), b"now", 0o600).await.unwrap();
        let copy = kernel.loop_attach(&at("copy"), false).await.unwrap();
        let mounted = kernel.mount(&copy, &at("other"), fs_type, options).await;
        assert_eq!(mounted.as_ref().err().map(errno), refusal, "{fs_type} {options:?}");
        if refusal.is_some() {
            kernel.unmount(&at("stage")).await.unwrap();
            kernel.mount(&copy, &at("other"), fs_type, options).await.unwrap();
        }
        assert_eq!(disk.read(&at("other/file")).await.unwrap(), b"then");
        assert_eq!(fake.group(&at("other/file")), Some(9));
        assert_eq!(kernel.filesystem_size(&copy, fs_type).await.unwrap(), 1 << 30);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_identity_lets_two_live_side_by_side() {
    let (host, fake, device) = staged("btrfs").await;
    let (disk, kernel) = (&host.disk, &host.kernel);
    disk.copy(&at("image"), &at("copy")).await.unwrap();
    let copy = kernel.loop_attach(&at("copy"), false).await.unwrap();
    assert!(kernel.renew_identity(&device, "btrfs").await.is_err(), "it is mounted");
    assert!(kernel.renew_identity(&copy, "xfs").await.is_ok(), "nothing to do");
    assert_eq!(errno(&kernel.mount(&copy, &at("other"), "btrfs", &[]).await.unwrap_err()), libc::EEXIST);
    fake.set_tool("btrfstune", false);
    assert_eq!(errno(&kernel.renew_identity(&copy, "btrfs").await.unwrap_err()), libc::ENOENT);
    fake.set_tool("btrfstune", true);
    kernel.renew_identity(&copy, "btrfs").await.unwrap();
    kernel.mount(&copy, &at("other"), "btrfs", &[]).await.unwrap();
    // Made apart, never the same.
    disk.create_sparse(&at("third"), 1 << 30).await.unwrap();
    let third = kernel.loop_attach(&at("third"), false).await.unwrap();
    kernel.make_filesystem(&third, "btrfs", &[]).await.unwrap();
    kernel.mount(&third, &at("bound"), "btrfs", &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_holes_only() {
    let (host, fake, device) = staged("ext4").await;
    let disk = &host.disk;
    disk.write_atomic(&at("small"), &[1; 100], 0o600).await.unwrap();
    let space = disk.space(&at("small")).await.unwrap();
    assert!(space.inodes_available > 0 && space.inodes_total >= space.inodes_available);
    fake.set_space(Space { available: 0, ..space });
    assert_eq!(disk.space(&at("small")).await.unwrap().available, 0);
    let full = |result: std::io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    full(disk.write_atomic(&at("small"), &[2; 100], 0o600).await);
    full(disk.create_dir_all(&at("dir"), 0o755).await);
    full(disk.copy(&at("small"), &at("copy")).await);
    full(disk.copy(&at("image"), &at("copy")).await);
    full(fake.write_device(&device, 1 << 20, b"x"));
    assert_eq!(disk.read(&at("small")).await.unwrap(), [1; 100], "nothing has changed");
    disk.create_sparse(&at("sparse"), 1 << 40).await.unwrap();
    disk.copy(&at("sparse"), &at("copy")).await.unwrap();
    disk.remove_file(&at("small")).await.unwrap();
    let sparse = host.kernel.loop_attach(&at("sparse"), false).await.unwrap();
    assert!(host.kernel.make_filesystem(&sparse, "ext4", &[]).await.is_err());
    assert_eq!(host.kernel.content(&sparse).await.unwrap(), Content::Empty);

    fake.set_space(Space { available: 50, ..space });
    full(disk.write_atomic(&at("small"), &[2; 100], 0o600).await);
    disk.write_atomic(&at("small"), &[2; 50], 0o600).await.unwrap();
    fake.set_space(Space { inodes_available: 0, ..space });
    full(disk.create_sparse(&at("another"), 1).await);
    disk.write_atomic(&at("small"), &[3; 100], 0o600).await.unwrap();
    fake.set_space(space);
    disk.create_sparse(&at("another"), 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_only_disk_can_be_read() {
    let (host, fake, _device) = staged("ext4").await;
    let (disk, kernel) = (&host.disk, &host.kernel);
    disk.write_atomic(&at("file"), b"old", 0o600).await.unwrap();
    fake.set_read_only(true);
    let refused = |result: std::io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    };
    refused(disk.write_atomic(&at("file"), b"new", 0o600).await);
    refused(disk.create_sparse(&at("new"), 1).await);
    refused(disk.create_dir_all(&at("dir"), 0o755).await);
    refused(disk.remove_file(&at("file")).await);
    refused(disk.rename(&at("file"), &at("moved")).await);
    refused(disk.symlink(Path::new("x"), &at("link")).await);
    refused(disk.lock(&at("lock")).await.map(drop));
    assert_eq!(disk.read(&at("file")).await.unwrap(), b"old");
    let attach = kernel.loop_attach(&at("file"), false).await.unwrap_err();
    assert_eq!(errno(&attach), libc::EROFS);
    kernel.loop_attach(&at("file"), true).await.unwrap();
    fake.set_read_only(false);
    disk.write_atomic(&at("file"), b"new", 0o600).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn blocks_follow_what_is_written_inside() {
    let (host, fake, device) = staged("ext4").await;
    let disk = &host.disk;
    let made = disk.allocated(&at("image")).await.unwrap();
    assert!(made > 0, "a filesystem takes room");
    disk.copy(&at("image"), &at("base")).await.unwrap();
    assert!(disk.changed(&at("base"), &at("image"), 4096, 0, 9).await.unwrap().is_empty());
    disk.write_atomic(&at("stage/file"), &[1; 10_000], 0o600).await.unwrap();
    assert!(disk.allocated(&at("image")).await.unwrap() > made);
    disk.copy(&at("image"), &at("later")).await.unwrap();
    let first = disk.changed(&at("base"), &at("later"), 4096, 0, 9).await.unwrap();
    assert!(!first.is_empty());
    assert!(first.iter().all(|Extent { offset, length }| offset % 4096 == 0 && length % 4096 == 0));
    disk.write_atomic(&at("stage/file"), &[2; 10_000], 0o600).await.unwrap();
    assert_eq!(disk.changed(&at("later"), &at("image"), 4096, 0, 9).await.unwrap(), first, "the same place");
    assert_eq!(disk.allocated(&at("base")).await.unwrap(), made, "a copy does not change");

    disk.create_sparse(&at("raw"), 1 << 20).await.unwrap();
    let raw = host.kernel.loop_attach(&at("raw"), false).await.unwrap();
    fake.write_device(&raw, 4096, b"somebody's data").unwrap();
    assert_eq!(host.kernel.content(&raw).await.unwrap(), Content::Other("unknown data".into()));
    assert!(host.kernel.make_filesystem(&raw, "ext4", &[]).await.is_err());
    assert_eq!(disk.extents(&at("raw"), 0, 9).await.unwrap(), [Extent { offset: 4096, length: 4096 }]);
    assert!(fake.write_device(&raw, 1 << 20, b"behind the end").is_err());
    host.kernel.flush(&device).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn devices_are_listed_with_their_settings() {
    let (host, fake, device) = staged("xfs").await;
    let (disk, kernel) = (&host.disk, &host.kernel);
    assert_eq!(fake.queue(&device), Some(Queue::default()));
    kernel.set_queue(&device, Queue { discard: Some(false), read_ahead_kib: None }).await.unwrap();
    kernel.set_queue(&device, Queue { discard: None, read_ahead_kib: Some(64) }).await.unwrap();
    let both = Queue { discard: Some(false), read_ahead_kib: Some(64) };
    assert_eq!(fake.queue(&device), Some(both));
    assert!(kernel.set_queue(&at("image"), both).await.is_err());
    let again = kernel.set_queue(&device, Queue { discard: Some(true), read_ahead_kib: None }).await;
    assert_eq!(errno(&again.unwrap_err()), libc::EINVAL, "not before the next attachment");
    assert_eq!(fake.queue(&device), Some(both));
    disk.rename(&at("image"), &at("moved")).await.unwrap();
    let mut expected =
        LoopDevice { device: device.clone(), image: at("moved"), deleted: false, read_only: false };
    assert_eq!(kernel.loops().await.unwrap(), [expected.clone()]);
    assert_eq!(kernel.loop_of(&at("moved")).await.unwrap(), Some(device.clone()));
    fake.set_errors(&at("moved"), 2);
    assert_eq!(kernel.filesystem_errors(&device, "xfs").await.unwrap(), 2);
    assert!(kernel.filesystem_errors(&device, "ext4").await.is_err());
    disk.remove_file(&at("moved")).await.unwrap();
    expected.deleted = true;
    assert_eq!(kernel.loops().await.unwrap(), [expected]);
    assert!(disk.read(&at("stage")).await.is_err());
    kernel.unmount(&at("stage")).await.unwrap();
    kernel.check_filesystem(&device, "xfs").await.unwrap();
    assert_eq!(kernel.filesystem_errors(&device, "xfs").await.unwrap(), 0, "repaired");
    kernel.loop_detach(&device).await.unwrap();
    assert_eq!((fake.queue(&device), kernel.loops().await.unwrap()), (None, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn sizes_follow_growing() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (host, fake, device) = staged(fs_type).await;
        let kernel = &host.kernel;
        assert_eq!(kernel.device_size(&device).await.unwrap(), 1 << 30);
        host.disk.create_sparse(&at("image"), 2 << 30).await.unwrap();
        assert_eq!(kernel.device_size(&device).await.unwrap(), 1 << 30, "not before it is told");
        kernel.loop_refresh(&device).await.unwrap();
        assert_eq!(kernel.device_size(&device).await.unwrap(), 2 << 30);
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), 1 << 30);
        let tool = match fs_type {
            "ext4" => "resize2fs",
            "xfs" => "xfs_growfs",
            _ => "btrfs",
        };
        fake.set_tool(tool, false);
        assert!(kernel.grow_filesystem(&device, &at("stage"), fs_type).await.is_err());
        fake.set_tool(tool, true);
        kernel.grow_filesystem(&device, &at("stage"), fs_type).await.unwrap();
        assert_eq!(kernel.filesystem_size(&device, fs_type).await.unwrap(), 2 << 30);
        kernel.unmount(&at("stage")).await.unwrap();
        let offline = kernel.grow_filesystem(&device, &at("stage"), fs_type).await;
        assert_eq!(offline.is_ok(), fs_type == "ext4", "{fs_type}");
    }
}
