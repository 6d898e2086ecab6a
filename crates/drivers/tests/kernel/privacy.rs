//! A pool as other users of the machine see it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::journey::{Scratch, serve};
use crate::volume::{Volume, text};

/// Everything below a directory that the user `nobody` can list or read.
fn readable(path: &Path) -> String {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "find", &text(path)])
        .args(["-readable", "-print"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn modes(path: &Path) -> Vec<(String, u32)> {
    let mut all = vec![(text(path), fs::symlink_metadata(path).unwrap().mode() & 0o7777)];
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            all.extend(modes(&entry.unwrap().path()));
        }
    }
    all
}

/// Goal: a pool of an older version that everybody could read is closed at start, and stays closed.
#[tokio::test]
async fn another_user_reads_nothing_of_a_pool() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(""), Permissions::from_mode(0o755)).unwrap();
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    stop.cancel();
    running.await.unwrap();
    for (path, mode) in modes(&scratch.path("pool")) {
        fs::set_permissions(path, Permissions::from_mode(mode | mode >> 3 | mode >> 6)).unwrap();
    }
    assert!(readable(&scratch.path("pool")).contains("disk.img"), "open to everybody");

    let (_running, stop) = serve(&scratch).await;
    let second = Volume::new(&scratch, "w", "ext4");
    second.create().await.unwrap();
    assert_eq!(readable(&scratch.path("pool")), "");
    for (path, mode) in modes(&scratch.path("pool")) {
        assert_eq!(mode & 0o077, 0, "{path}");
    }
    let socket = fs::metadata(scratch.path("csi.sock")).unwrap().mode();
    assert_eq!(socket & 0o077, 0);
    for volume in [volume, second] {
        volume.delete().await.unwrap();
    }
    scratch.assert_clean();
    stop.cancel();
}
