//! SnapshotMetadata: a backup that takes only what it is told of is the snapshot, byte for byte.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use tonic::Code;

use crate::journey::{Scratch, serve};
use crate::volume::Volume;
use crate::writer::OwnPool;

const MIB: usize = 1 << 20;

/// The blocks of a stream, and how many messages they came in.
struct Told {
    blocks: Vec<(u64, u64)>,
    messages: usize,
}

impl Told {
    fn add(&mut self, kind: i32, capacity: i64, size: u64, max: i32, blocks: &[csi::BlockMetadata]) {
        assert_eq!(kind, csi::BlockMetadataType::VariableLength as i32);
        assert_eq!(capacity.cast_unsigned(), size);
        assert!(!blocks.is_empty() && blocks.len() <= max as usize);
        for block in blocks {
            let (offset, length) = (block.byte_offset.cast_unsigned(), block.size_bytes.cast_unsigned());
            let end = self.blocks.last().map_or(0, |(offset, length)| offset + length);
            assert!(offset >= end && length > 0 && offset + length <= size, "{offset} {length}");
            self.blocks.push((offset, length));
        }
        self.messages += 1;
    }

    /// Copies what was told from one image to another.
    fn apply(&self, from: &Path, to: &Path) -> u64 {
        let (from, to) = (File::open(from).unwrap(), OpenOptions::new().write(true).open(to).unwrap());
        for (offset, length) in &self.blocks {
            let mut bytes = vec![0; *length as usize];
            from.read_exact_at(&mut bytes, *offset).unwrap();
            to.write_all_at(&bytes, *offset).unwrap();
        }
        self.blocks.iter().map(|(_, length)| length).sum()
    }
}

async fn allocated(volume: &Volume, id: &str, size: u64, max_results: i32) -> Told {
    let request =
        csi::GetMetadataAllocatedRequest { snapshot_id: id.into(), max_results, ..Default::default() };
    let mut client = SnapshotMetadataClient::new(volume.channel());
    let mut stream = client.get_metadata_allocated(request).await.unwrap().into_inner();
    let mut told = Told { blocks: Vec::new(), messages: 0 };
    while let Some(m) = stream.message().await.unwrap() {
        told.add(m.block_metadata_type, m.volume_capacity_bytes, size, max_results, &m.block_metadata);
    }
    told
}

async fn delta(volume: &Volume, base: &str, target: &str, size: u64, max_results: i32) -> Told {
    let request = csi::GetMetadataDeltaRequest {
        base_snapshot_id: base.into(),
        target_snapshot_id: target.into(),
        max_results,
        ..Default::default()
    };
    let mut client = SnapshotMetadataClient::new(volume.channel());
    let mut stream = client.get_metadata_delta(request).await.unwrap().into_inner();
    let mut told = Told { blocks: Vec::new(), messages: 0 };
    while let Some(m) = stream.message().await.unwrap() {
        told.add(m.block_metadata_type, m.volume_capacity_bytes, size, max_results, &m.block_metadata);
    }
    told
}

fn assert_same(one: &Path, other: &Path, what: &str) {
    let (one, other) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    let differs = one.iter().zip(&other).position(|(a, b)| a != b);
    assert!(one.len() == other.len() && differs.is_none(), "{what}: differs at {differs:?}");
}

/// What a workload does between two backups: new, changed, deleted and shortened files.
fn work(dir: &Path) {
    for number in 0..8u8 {
        fs::write(dir.join(format!("new{number}")), vec![number + 1; 300_000 + usize::from(number) * 4096])
            .unwrap();
    }
    let changed = OpenOptions::new().write(true).open(dir.join("old3")).unwrap();
    changed.write_all_at(&[0xee; 5000], 123_456).unwrap();
    fs::remove_file(dir.join("old5")).unwrap();
    OpenOptions::new().write(true).open(dir.join("old6")).unwrap().set_len(1000).unwrap();
}

async fn rebuilt(pool: Option<&str>, fs_type: &str) {
    let scratch = Scratch::new();
    let own = pool.map(|pool| OwnPool::new(&scratch, pool));
    let (running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", fs_type);
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    for number in 0..10u8 {
        fs::write(volume.target.join(format!("old{number}")), vec![number; MIB]).unwrap();
    }
    let size = volume.snapshot("base").await.unwrap().size_bytes.cast_unsigned();
    work(&volume.target);
    volume.snapshot("target").await.unwrap();
    let image = |id: &str| -> PathBuf { scratch.path("pool/snapshots").join(id).join("disk.img") };

    let backup = scratch.path("backup.img");
    File::create(&backup).unwrap().set_len(size).unwrap();
    let full = allocated(&volume, "base", size, 4).await;
    let full_bytes = full.apply(&image("base"), &backup);
    assert_same(&backup, &image("base"), "all allocated blocks are the base");

    let delta = delta(&volume, "base", "target", size, 4).await;
    let delta_bytes = delta.apply(&image("target"), &backup);
    assert_same(&backup, &image("target"), "base and delta are the target");
    assert!(
        full_bytes < size && delta_bytes < full_bytes,
        "of {size} bytes {full_bytes} allocated, {delta_bytes} changed"
    );
    assert!(full.messages > 1 && delta.messages > 1, "bounded messages");

    volume.down().await.unwrap();
    volume.delete().await.unwrap();
    for id in ["base", "target"] {
        volume.delete_snapshot(id).await.unwrap();
    }
    let request = csi::GetMetadataAllocatedRequest { snapshot_id: "base".into(), ..Default::default() };
    let gone = SnapshotMetadataClient::new(volume.channel()).get_metadata_allocated(request).await;
    assert_eq!(gone.map(drop).unwrap_err().code(), Code::NotFound);
    stop.cancel();
    running.await.unwrap();
    drop(own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ext4_on_a_pool_that_copies() {
    rebuilt(None, "ext4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ext4_on_a_pool_that_shares_blocks() {
    rebuilt(Some("xfs"), "ext4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xfs_on_a_pool_that_shares_blocks() {
    rebuilt(Some("btrfs"), "xfs").await;
}
