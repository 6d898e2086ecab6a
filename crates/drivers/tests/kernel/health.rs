//! Damage that the kernel itself reports.

use std::fs;
use std::path::Path;
use std::process::Command;

use bowline_drivers::local::Dialect;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessType, BlockVolume, MountVolume};

use crate::journey::{Caller, Scratch, serve_in};

const NONE: [&str; 0] = [];

/// The name of the only loop device over the volume's image.
fn device_name(scratch: &Scratch) -> String {
    let devices = scratch.devices();
    assert_eq!(devices.len(), 1, "{devices:?}");
    devices[0].trim_start_matches("/dev/").to_owned()
}

#[tokio::test]
async fn an_error_of_ext4() {
    let scratch = Scratch::new();
    let (_running, stop) = serve_in(&scratch, Dialect::V1_13).await;
    let mount = MountVolume {
        fs_type: "ext4".into(),
        mount_flags: vec!["errors=remount-ro".into()],
        ..Default::default()
    };
    let caller = Caller::new(&scratch, AccessType::Mount(mount), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    assert_eq!(caller.ailments().await, NONE);

    // As if the kernel had met a damaged block.
    fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", device_name(&scratch)), "planned by a test")
        .unwrap();
    let ailments = caller.ailments().await;
    assert!(ailments.contains(&"FilesystemErrors".to_owned()), "{ailments:?}");
    let refused = fs::write(caller.target.join("more"), b"x");
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::ReadOnlyFilesystem,
        "it did become read-only"
    );

    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    assert_eq!(caller.ailments().await, NONE, "checked on the way");
    caller.read();
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

#[tokio::test]
async fn a_device_taken_away() {
    let scratch = Scratch::new();
    let (running, stop) = serve_in(&scratch, Dialect::V1_13).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    assert_eq!(caller.ailments().await, NONE);
    let device = Path::new("/dev").join(device_name(&scratch));
    // A driver that runs has the device open and keeps it.
    stop.cancel();
    running.await.unwrap();
    assert!(Command::new("losetup").arg("-d").arg(&device).status().unwrap().success());
    assert_eq!(scratch.devices(), Vec::<String>::new());
    let (_running, stop) = serve_in(&scratch, Dialect::V1_13).await;
    // Another test may have got the number meanwhile.
    let ailments = caller.ailments().await;
    assert!(ailments == ["DeviceVanished"] || ailments == ["DeviceTaken"], "{ailments:?}");
    caller.take_down().await.unwrap();
    assert_eq!(caller.ailments().await, NONE);
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

#[tokio::test]
async fn an_image_cut_short_and_then_gone() {
    let scratch = Scratch::new();
    let (_running, stop) = serve_in(&scratch, Dialect::V1_13).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.attach().await.unwrap();
    caller.stage().await.unwrap();
    fs::OpenOptions::new().write(true).open(scratch.image()).unwrap().set_len(1 << 20).unwrap();
    assert_eq!(caller.ailments().await, ["ImageTruncated"]);
    // The device goes on with what it has open, so it has not vanished.
    fs::remove_file(scratch.image()).unwrap();
    assert_eq!(caller.ailments().await, ["ImageMissing"]);
    caller.unstage().await.unwrap();
    caller.detach().await.unwrap();
    assert_eq!(caller.ailments().await, ["ImageMissing"]);
    caller.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}
