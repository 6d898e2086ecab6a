//! The driver on a real kernel: loop devices, mkfs, mounts. Needs root and fails without it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

mod broken;
mod crash;
mod data;
mod deltas;
mod ephemeral;
mod filesystems;
mod group;
mod health;
mod journey;
mod places;
mod pool;
mod privacy;
mod resizing;
mod settings;
mod share;
mod share_crash;
mod sizes;
mod snapshots;
mod stats;
mod stolen;
mod thawing;
mod together;
mod volume;
mod writer;

use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessType, BlockVolume, MountVolume};
use journey::{Caller, Scratch, serve};

fn filesystem(fs_type: &str) -> AccessType {
    AccessType::Mount(MountVolume { fs_type: fs_type.into(), ..Default::default() })
}

/// Goal: data written once is there again after everything was taken down and set up anew, and nothing is left
/// when the volume is deleted.
async fn data_survives(access: AccessType) {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, access, Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    caller.read();
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

#[tokio::test]
async fn ext4() {
    data_survives(filesystem("ext4")).await;
}

#[tokio::test]
async fn xfs() {
    data_survives(filesystem("xfs")).await;
}

#[tokio::test]
async fn btrfs() {
    data_survives(filesystem("btrfs")).await;
}

#[tokio::test]
async fn block() {
    data_survives(AccessType::Block(BlockVolume {})).await;
}

#[tokio::test]
async fn read_only_targets_refuse_writes() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let mut caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeMultiWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    caller.read_only = true;
    let refused = caller.publish().await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::AlreadyExists);
    caller.unpublish().await.unwrap();
    caller.publish().await.unwrap();
    caller.publish().await.unwrap();
    caller.read();
    let written = std::fs::write(caller.target.join("more"), b"x");
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

/// The kernel itself refuses writes, which a read-only mount of the device file would not achieve.
#[tokio::test]
async fn read_only_devices_refuse_writes() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeReaderOnly);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    let written = std::fs::OpenOptions::new().write(true).open(&caller.target);
    let written = written.and_then(|mut device| std::io::Write::write(&mut device, &[1; 4096]));
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

/// The smallest volumes that are promised really can be formatted.
#[tokio::test]
async fn the_smallest_sizes_work() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let mut caller = Caller::new(&scratch, filesystem(fs_type), Mode::SingleNodeWriter);
        caller.size = 1;
        caller.create().await.unwrap();
        caller.set_up().await.unwrap();
        caller.write();
        caller.take_down().await.unwrap();
        caller.delete().await.unwrap();
        scratch.assert_clean();
        stop.cancel();
    }
}
