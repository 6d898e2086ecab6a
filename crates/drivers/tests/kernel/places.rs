//! Directories that are reached through symbolic links.

use std::fs;
use std::os::unix::fs::symlink;

use tonic::Code;

use crate::journey::{Scratch, serve};
use crate::volume::Volume;

/// Goal: a kubelet directory, and a pool, behind links behave as if the links were not there.
#[tokio::test]
async fn behind_a_link() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("disk")).unwrap();
    symlink(scratch.path("disk"), scratch.path("pool")).unwrap();
    symlink(scratch.path(""), scratch.path("kubelet")).unwrap();
    let (running, stop) = serve(&scratch).await;
    let mut volume = Volume::new(&scratch, "v", "ext4");
    let (staging, target) = (volume.staging.clone(), volume.target.clone());
    volume.staging = scratch.path("kubelet/staging/v");
    volume.target = scratch.path("kubelet/pods/v");
    volume.create().await.unwrap();
    for _ in 0..2 {
        volume.up().await.unwrap();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = table.lines().filter(|line| line.contains(&*scratch.path("").to_string_lossy()));
        assert_eq!(here.count(), 2, "one staging, one target");
    }
    fs::write(target.join("file"), "data").unwrap();
    assert_eq!(fs::read(staging.join("file")).unwrap(), b"data");
    stop.cancel();
    running.await.unwrap();

    let (_running, stop) = serve(&scratch).await;
    volume.up().await.expect("the same after a restart");
    let early = volume.unstage().await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition, "published");
    volume.unpublish().await.unwrap();
    volume.unpublish().await.unwrap();
    assert!(!target.exists());
    volume.unstage().await.unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

#[tokio::test]
async fn a_link_and_the_pool_are_refused() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let mut volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    volume.stage().await.unwrap();
    let elsewhere = scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for (path, expected) in [
        ("pods/link", Code::FailedPrecondition),
        ("pool/volumes/v", Code::InvalidArgument),
        ("pool/volumes/w", Code::InvalidArgument),
        ("", Code::InvalidArgument),
    ] {
        if expected == Code::FailedPrecondition {
            symlink(&elsewhere, scratch.path(path)).unwrap();
        }
        volume.target = scratch.path(path).components().collect();
        assert_eq!(volume.publish().await.unwrap_err().code(), expected, "{path}");
        assert_eq!(volume.unpublish().await.unwrap_err().code(), expected, "{path}");
    }
    assert!(volume.image.exists());
    fs::remove_file(scratch.path("pods/link")).unwrap();
    volume.unstage().await.unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}
