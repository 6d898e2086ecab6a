//! Data in snapshots, in what is made from them, and in clones, while workloads write on.

use std::fs;
use std::os::unix::fs::FileExt;

use tonic::Code;

use crate::journey::{Scratch, serve};
use crate::volume::Volume;
use crate::writer::{OwnPool, Writer, blocks, files, of_snapshot, of_volume, whole_blocks, whole_files};

/// Goal: what was synced before the call is in the copy, everything in it is of one moment, the workload goes on,
/// and the copy needs its origin no longer.
async fn survives_under_a_writer(fs_type: &str, pool: Option<&str>) {
    let scratch = Scratch::new();
    let own = pool.map(|pool| OwnPool::new(&scratch, pool));
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", fs_type);
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    let writer = Writer::start(files(&volume.target));

    let before = writer.gets_on(20).await;
    let snapshot = volume.snapshot("s").await.unwrap();
    let after = writer.gets_on(5).await;
    assert!(snapshot.ready_to_use && snapshot.size_bytes >= volume.size, "{snapshot:?}");
    let before_clone = writer.done();
    let clone = Volume::new(&scratch, "c", fs_type).made_from(of_volume("v"));
    clone.create().await.unwrap();
    let end = writer.gets_on(5).await;

    // Beside its mounted origin.
    let restored = Volume::new(&scratch, "r", fs_type).made_from(of_snapshot("s"));
    restored.create().await.unwrap();
    restored.up().await.unwrap();
    clone.up().await.unwrap();
    let (in_snapshot, in_clone) = (whole_files(&restored.target), whole_files(&clone.target));
    assert!((before..=after + 1).contains(&in_snapshot), "{before} <= {in_snapshot} <= {after}");
    assert!((before_clone..=end + 1).contains(&in_clone), "{before_clone} <= {in_clone} <= {end}");
    fs::write(restored.target.join("new"), b"of its own").unwrap();

    let written = writer.stop();
    assert_eq!(whole_files(&volume.target), written, "the origin has it all");
    assert!(!volume.target.join("new").exists(), "copies are copies");
    volume.down().await.unwrap();
    // Sharing blocks must not have changed its device.
    volume.up().await.unwrap();
    assert_eq!(whole_files(&volume.target), written);
    volume.down().await.unwrap();
    // Nothing depends on it, and nothing on the snapshot.
    volume.delete().await.unwrap();
    let again = Volume::new(&scratch, "again", fs_type).made_from(of_snapshot("s"));
    again.create().await.unwrap();
    volume.delete_snapshot("s").await.unwrap();
    again.up().await.unwrap();
    assert_eq!(whole_files(&again.target), in_snapshot, "the snapshot has not changed");
    for volume in [&again, &restored, &clone] {
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    stop.cancel();
    running.await.unwrap();
    drop(own);
    if pool.is_none() {
        scratch.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ext4_under_a_writer() {
    survives_under_a_writer("ext4", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xfs_under_a_writer() {
    survives_under_a_writer("xfs", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn btrfs_under_a_writer() {
    survives_under_a_writer("btrfs", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ext4_on_a_pool_that_shares_blocks() {
    survives_under_a_writer("ext4", Some("xfs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xfs_on_a_pool_that_shares_blocks() {
    survives_under_a_writer("xfs", Some("xfs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn btrfs_on_a_pool_that_shares_blocks() {
    survives_under_a_writer("btrfs", Some("btrfs")).await;
}

/// A device in use cannot be frozen. Where blocks are shared, its snapshot is of one moment all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_under_a_writer_on_a_pool_that_shares_blocks() {
    for pool in ["xfs", "btrfs"] {
        let scratch = Scratch::new();
        let own = OwnPool::new(&scratch, pool);
        let (running, stop) = serve(&scratch).await;
        let volume = Volume::new(&scratch, "v", "").of_bytes();
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        let writer = Writer::start(blocks(&volume.target));
        for round in 0..5 {
            let name = format!("s{round}");
            let before = writer.gets_on(20).await;
            volume.snapshot(&name).await.unwrap();
            let after = writer.gets_on(1).await;
            let in_snapshot = whole_blocks(&scratch.path("pool/snapshots").join(&name).join("disk.img"));
            assert!((before..=after + 1).contains(&in_snapshot), "{before} <= {in_snapshot} <= {after}");
        }
        writer.stop();
        let restored = Volume::new(&scratch, "r", "").of_bytes().made_from(of_snapshot("s0"));
        restored.create().await.unwrap();
        restored.up().await.unwrap();
        assert!(whole_blocks(&restored.target) >= 20);
        restored.down().await.unwrap();
        volume.down().await.unwrap();
        stop.cancel();
        running.await.unwrap();
        drop(own);
    }
}

/// Where they are not, a copy that took a while is of many moments, and that is said instead of handed out. A
/// device that nobody writes to is copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_on_a_pool_that_copies() {
    let scratch = Scratch::new();
    let own = OwnPool::new(&scratch, "ext4");
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "").of_bytes();
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    // Enough that the copy takes longer than the writer waits for a processor.
    let device = fs::OpenOptions::new().write(true).open(&volume.target).unwrap();
    device.write_all_at(&vec![0; 40 << 20], 20 << 20).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let writer = Writer::start(blocks(&volume.target));
    writer.gets_on(20).await;
    let refused = volume.snapshot("s").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("stop the workload"), "{refused}");
    assert_eq!(fs::read_dir(scratch.path("pool/snapshots")).unwrap().count(), 0, "nothing half-made stays");
    let written = writer.stop();
    volume.snapshot("s").await.unwrap();
    let clone = Volume::new(&scratch, "c", "").of_bytes().made_from(of_volume("v"));
    clone.create().await.unwrap();
    clone.up().await.unwrap();
    assert_eq!(whole_blocks(&clone.target), written);
    volume.down().await.unwrap();
    volume.delete().await.unwrap();
    let restored = Volume::new(&scratch, "r", "").of_bytes().made_from(of_snapshot("s"));
    restored.create().await.unwrap();
    restored.up().await.unwrap();
    assert_eq!(whole_blocks(&restored.target), written);
    for volume in [&clone, &restored] {
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    volume.delete_snapshot("s").await.unwrap();
    stop.cancel();
    running.await.unwrap();
    drop(own);
}

/// A pool without room for the copy: said so, nothing stays of it, and the workload goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool() {
    let scratch = Scratch::new();
    let own = OwnPool::new(&scratch, "ext4");
    let (running, stop) = serve(&scratch).await;
    let mut volume = Volume::new(&scratch, "v", "ext4");
    volume.size = 700 << 20;
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    fs::write(volume.target.join("big"), vec![1; 600 << 20]).unwrap();
    let writer = Writer::start(files(&volume.target));
    writer.gets_on(5).await;
    let refused = volume.snapshot("s").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(fs::read_dir(scratch.path("pool/snapshots")).unwrap().count(), 0);
    writer.gets_on(5).await;
    let mut clone = Volume::new(&scratch, "c", "").made_from(of_volume("v"));
    clone.size = volume.size;
    assert_eq!(clone.create().await.unwrap_err().code(), Code::ResourceExhausted);
    assert!(!clone.image.parent().unwrap().exists());
    writer.gets_on(5).await;
    writer.stop();
    volume.down().await.unwrap();
    stop.cancel();
    running.await.unwrap();
    drop(own);
}
