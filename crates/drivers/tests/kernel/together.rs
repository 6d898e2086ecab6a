//! Snapshots of several volumes: never one without what another had before.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::group_controller_client::GroupControllerClient;
use tonic::Status;

use crate::journey::{Scratch, serve};
use crate::volume::Volume;
use crate::writer::{OwnPool, Writer, of_snapshot};

pub async fn group(
    volume: &Volume,
    name: &str,
    volumes: &[&Volume],
) -> Result<csi::VolumeGroupSnapshot, Status> {
    let request = csi::CreateVolumeGroupSnapshotRequest {
        name: name.into(),
        source_volume_ids: volumes.iter().map(|volume| volume.id.clone()).collect(),
        ..Default::default()
    };
    let mut client = GroupControllerClient::new(volume.channel());
    Ok(client.create_volume_group_snapshot(request).await?.into_inner().group_snapshot.unwrap())
}

pub async fn delete_group(volume: &Volume, name: &str, ids: Vec<String>) -> Result<(), Status> {
    let request = csi::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: name.into(),
        snapshot_ids: ids,
        ..Default::default()
    };
    GroupControllerClient::new(volume.channel()).delete_volume_group_snapshot(request).await.map(drop)
}

pub fn members(group: &csi::VolumeGroupSnapshot) -> Vec<String> {
    group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect()
}

fn number(dir: &Path) -> u64 {
    u64::from_le_bytes(fs::read(dir.join("number")).unwrap().try_into().unwrap())
}

/// Writes each number to the first volume, and to the second only when it is safe in the first.
fn alternate(first: &Volume, second: &Volume) -> Writer {
    let open = |volume: &Volume| -> File {
        let path = volume.target.join("number");
        fs::write(&path, 0u64.to_le_bytes()).unwrap();
        OpenOptions::new().write(true).open(path).unwrap()
    };
    let files = [open(first), open(second)];
    Writer::start(move |number| {
        for file in &files {
            file.write_all_at(&number.to_le_bytes(), 0).unwrap();
            file.sync_all().unwrap();
        }
    })
}

/// Goal: however the volumes are ordered, the second never shows a number that the first does not have yet.
async fn cut_together(fs_type: &str, names: [&str; 2], pool: Option<&str>) {
    let scratch = Scratch::new();
    let own = pool.map(|pool| OwnPool::new(&scratch, pool));
    let (running, stop) = serve(&scratch).await;
    let [first, second] = names.map(|name| Volume::new(&scratch, name, fs_type));
    for volume in [&first, &second] {
        volume.create().await.unwrap();
        volume.up().await.unwrap();
    }
    let writer = alternate(&first, &second);
    let mut cut = Vec::new();
    for round in 0..6 {
        let before = writer.gets_on(3).await;
        let made = group(&first, &format!("g{round}"), &[&first, &second]).await.unwrap();
        cut.push((before, made, writer.gets_on(1).await));
    }
    writer.stop();
    for volume in [&first, &second] {
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    for (round, (before, made, after)) in cut.into_iter().enumerate() {
        let member = |of: &str| made.snapshots.iter().find(|member| member.source_volume_id == of).unwrap();
        let mut numbers = Vec::new();
        for name in names {
            let source = of_snapshot(&member(name).snapshot_id);
            let restored = Volume::new(&scratch, &format!("r-{name}"), fs_type).made_from(source);
            restored.create().await.unwrap();
            restored.up().await.unwrap();
            numbers.push(number(&restored.target));
            restored.down().await.unwrap();
            restored.delete().await.unwrap();
        }
        assert!(numbers[0] == numbers[1] || numbers[0] == numbers[1] + 1, "{numbers:?}: not of one moment");
        assert!(
            numbers[1] + 1 >= before && numbers[0] <= after,
            "{before} <= {numbers:?} <= {after}: not of this moment"
        );
        delete_group(&first, &format!("g{round}"), members(&made)).await.unwrap();
    }
    stop.cancel();
    running.await.unwrap();
    drop(own);
    if pool.is_none() {
        scratch.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_is_frozen_first() {
    cut_together("ext4", ["a", "b"], None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_is_frozen_first() {
    cut_together("ext4", ["b", "a"], None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xfs_on_a_pool_that_shares_blocks() {
    cut_together("xfs", ["a", "b"], Some("xfs")).await;
}
