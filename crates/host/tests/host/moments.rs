//! What makes a copy one of a single moment: sharing blocks, or knowing that nobody wrote.

use std::io::{ErrorKind, Write};
use std::path::Path;

use bowline_host::Host;
use bowline_host::fake;

use crate::world::World;

#[tokio::test]
async fn writes_to_a_device_are_counted() {
    let world = World::new();
    let device = world.device("image", 4).await;
    let kernel = &world.host.kernel;
    let quiet = kernel.writes(&device).await.unwrap();
    assert_eq!(quiet.under_way, 0);
    std::fs::read(&device).unwrap();
    assert_eq!(kernel.writes(&device).await.unwrap(), quiet, "reading is not writing");
    let mut file = std::fs::OpenOptions::new().write(true).open(&device).unwrap();
    file.write_all(&[1; 4096]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let written = kernel.writes(&device).await.unwrap();
    assert!(written.done > quiet.done, "{quiet:?} {written:?}");
    kernel.loop_detach(&device).await.unwrap();
    assert!(kernel.writes(Path::new("/dev/null")).await.is_err(), "no block device");
}

async fn shares(host: &Host, dir: &Path) {
    let (from, to) = (dir.join("from"), dir.join("to"));
    host.disk.write_atomic(&from, &[7; 10_000], 0o600).await.unwrap();
    host.disk.write_atomic(&to, b"before", 0o600).await.unwrap();
    host.disk.reflink(&from, &to).await.unwrap();
    host.disk.write_atomic(&from, b"later", 0o600).await.unwrap();
    assert_eq!(host.disk.read(&to).await.unwrap(), [7; 10_000]);
}

/// Sharing blocks must not change the device over an image: what is in it could not be mounted any more.
async fn geometry(host: &Host, dir: &Path) {
    let (image, copy) = (dir.join("image"), dir.join("copy"));
    host.disk.create_sparse(&image, 4 << 20).await.unwrap();
    let mut sectors = Vec::new();
    for path in [&image, &image, &copy] {
        let device = host.kernel.loop_attach(path, false).await.unwrap();
        let size = Path::new("/sys/block").join(device.file_name().unwrap()).join("queue/logical_block_size");
        sectors.push(std::fs::read_to_string(size).unwrap());
        std::fs::OpenOptions::new().write(true).open(&device).unwrap().write_all(&[1; 8192]).unwrap();
        host.kernel.loop_detach(&device).await.unwrap();
        host.disk.reflink(&image, &copy).await.unwrap();
    }
    assert_eq!(sectors, ["512\n"; 3]);
}

/// xfs can, the filesystem of the machine may not; then nothing is left and the target is as it was.
#[tokio::test]
async fn blocks_are_shared_where_the_filesystem_can() {
    let world = World::new();
    let (device, target) = world.mounted("pool", "xfs").await;
    shares(&world.host, &target).await;
    geometry(&world.host, &target).await;
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;

    let (device, target) = world.mounted("plain", "ext4").await;
    let (from, to) = (target.join("from"), target.join("to"));
    world.host.disk.write_atomic(&from, b"new", 0o600).await.unwrap();
    world.host.disk.write_atomic(&to, b"old", 0o600).await.unwrap();
    let refused = world.host.disk.reflink(&from, &to).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 3, "both, and lost+found");
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_machine_shares_when_told() {
    let (host, machine) = fake::host(1);
    let dir = Path::new("/var/lib");
    host.disk.write_atomic(&dir.join("from"), b"x", 0o600).await.unwrap();
    let refused = host.disk.reflink(&dir.join("from"), &dir.join("to")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    machine.set_reflinks(true);
    shares(&host, dir).await;
    let image = dir.join("image");
    host.disk.create_sparse(&image, 1 << 20).await.unwrap();
    let device = host.kernel.loop_attach(&image, false).await.unwrap();
    let quiet = host.kernel.writes(&device).await.unwrap();
    machine.write_device(&device, 0, b"x").unwrap();
    assert_eq!(host.kernel.writes(&device).await.unwrap().done, quiet.done + 1);
}
