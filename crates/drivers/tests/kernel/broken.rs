//! Mounts that answer with errors, and what a reboot leaves.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tonic::Code;

use crate::journey::{Scratch, serve};
use crate::volume::{Volume, text, tool};

/// Goal: whatever a filesystem answers, it can be taken away, and what was synced before is there afterwards.
#[tokio::test]
async fn a_shut_down_filesystem_is_taken_away() {
    for fs_type in ["ext4", "xfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let volume = Volume::new(&scratch, "v", fs_type);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        fs::write(volume.target.join("file"), "data").unwrap();
        tool("sync", &["-f", &text(&volume.target)]);
        // As after an error of its device: nothing is written any more, not even the log.
        tool("xfs_io", &["-x", "-c", "shutdown", &text(&volume.target)]);
        let answer = fs::write(volume.target.join("more"), "x").unwrap_err();
        assert_eq!(answer.raw_os_error(), Some(5), "{fs_type} answers with input/output errors");
        if fs_type == "xfs" {
            assert_eq!(
                fs::metadata(&volume.target).unwrap_err().raw_os_error(),
                Some(5),
                "to every question"
            );
        }
        volume.unpublish().await.expect(fs_type);
        assert!(!volume.target.exists());
        volume.unpublish().await.expect("repeated");
        volume.unstage().await.expect(fs_type);
        volume.up().await.unwrap();
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data", "{fs_type}");
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
        scratch.assert_clean();
        stop.cancel();
    }
}

/// The bytes vanish under a mounted filesystem, which notices when it likes.
#[tokio::test]
async fn an_image_cut_short_can_be_taken_away_and_deleted() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let volume = Volume::new(&scratch, "v", fs_type);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        fs::write(volume.target.join("file"), vec![1; 4 << 20]).unwrap();
        OpenOptions::new().write(true).open(&volume.image).and_then(|image| image.set_len(0)).unwrap();
        volume.down().await.expect(fs_type);
        volume.delete().await.expect(fs_type);
        scratch.assert_clean();
        stop.cancel();
    }
}

pub fn device_of(image: &Path) -> String {
    let attached = tool("losetup", &["-n", "-O", "NAME", "-j", &text(image)]);
    attached.trim().to_owned()
}

/// Another test may have got the number meanwhile, and gives it back.
pub async fn attach_as(device: &str, image: &Path) {
    for _ in 0..1200 {
        if Command::new("losetup").arg(device).arg(image).status().unwrap().success() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{device} stays another's");
}

/// Goal: after a reboot, records say "staged" and nothing is; the device's number may have become another's, and
/// another's mount may stand at the path.
#[tokio::test]
async fn after_a_reboot_with_reused_names() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    fs::write(volume.target.join("file"), "data").unwrap();
    let device = device_of(&volume.image);
    stop.cancel();
    running.await.unwrap();
    tool("umount", &[&text(&volume.target)]);
    tool("umount", &[&text(&volume.staging)]);
    let other = scratch.path("other.img");
    OpenOptions::new().write(true).create_new(true).open(&other).and_then(|f| f.set_len(8 << 20)).unwrap();
    tool("mkfs.ext4", &["-q", &text(&other)]);
    tool("losetup", &["-d", &device]);
    attach_as(&device, &other).await;
    tool("mount", &[&device, &text(&volume.staging)]);

    let (_running, stop) = serve(&scratch).await;
    let refused = [volume.stage().await, volume.publish().await, volume.unstage().await];
    assert_eq!(refused.map(|answer| answer.unwrap_err().code()), [Code::FailedPrecondition; 3]);
    volume.unpublish().await.expect("the empty target of before");
    assert!(!volume.target.exists());
    assert!(volume.staging.join("lost+found").exists(), "the other's mount stays");
    tool("umount", &[&text(&volume.staging)]);

    volume.up().await.expect("staging exists, its mount does not");
    assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data");
    assert_ne!(device_of(&volume.image), device);
    volume.down().await.unwrap();
    volume.delete().await.unwrap();
    tool("losetup", &["-d", &device]);
    scratch.assert_clean();
    stop.cancel();
}
