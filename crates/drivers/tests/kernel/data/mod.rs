//! What happens to the bytes: the whole life of a volume's content, on every filesystem and on the bare device,
//! with the driver killed wherever it can be killed, and with its records gone.

mod content;
mod machine;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume};
use bowline_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

use crate::filesystem;
use content::{assert_holds, size, write};
use machine::Machine;

/// Enough for every filesystem's smallest size.
const SIZE: i64 = 320 << 20;
const LARGER: i64 = 512 << 20;
/// Filesystems keep some room for themselves; less than what a volume grows by.
const OVERHEAD: u64 = 100 << 20;
/// More failpoints than a journey has.
const HITS_MAX: u64 = 2000;

fn capability(access: AccessType) -> csi::VolumeCapability {
    let mode = Mode::SingleNodeWriter.into();
    csi::VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode }) }
}

fn from_snapshot(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Snapshot(SnapshotSource { snapshot_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

fn from_volume(id: &str) -> Option<csi::VolumeContentSource> {
    let source = Type::Volume(VolumeSource { volume_id: id.into() });
    Some(csi::VolumeContentSource { r#type: Some(source) })
}

/// A volume on one node, a snapshot and a clone of it taken while it is in use, its growth, and its move to
/// another node.
async fn first_half(machine: &mut Machine) {
    machine.create("origin", SIZE, None).await;
    machine.set_up("origin", 0).await;
    write(&machine.target("origin"), 0);
    let snapshot = machine.snapshot("snap", "origin").await;
    assert_eq!(snapshot.size_bytes, SIZE);
    write(&machine.target("origin"), 1);
    machine.create("clone", SIZE, from_volume("origin")).await;
    write(&machine.target("origin"), 2);
    machine.expand("origin", LARGER).await;
    assert_holds(&machine.target("origin"), &[0, 1, 2], "after expanding");
    machine.take_down("origin", 0).await;
    machine.set_up("origin", 1).await;
    assert_holds(&machine.target("origin"), &[0, 1, 2], "on another node");
    let seen = size(&machine.target("origin"));
    assert!(seen + OVERHEAD >= LARGER as u64, "grown: {seen}");
    assert_eq!(machine.snapshot("snap", "origin").await, snapshot, "a repeat is the same snapshot");
}

/// The copies, beside their origin and after it.
async fn second_half(machine: &mut Machine) {
    machine.create("restored", LARGER, from_snapshot("snap")).await;
    machine.set_up("restored", 0).await;
    assert_holds(&machine.target("restored"), &[0], "restored");
    let seen = size(&machine.target("restored"));
    assert!(seen + OVERHEAD >= LARGER as u64, "larger than its snapshot: {seen}");
    write(&machine.target("restored"), 3);
    assert_holds(&machine.target("origin"), &[0, 1, 2], "beside its copy");
    machine.take_down("origin", 1).await;
    machine.delete("origin").await;
    machine.delete_snapshot("snap").await;
    machine.set_up("clone", 1).await;
    assert_holds(&machine.target("clone"), &[0, 1], "clone");
    assert_holds(&machine.target("restored"), &[0, 3], "after its origin");
    machine.take_down("clone", 1).await;
    machine.take_down("restored", 0).await;
    machine.delete("clone").await;
    machine.delete("restored").await;
    machine.scratch.assert_clean();
}

async fn life(access: AccessType, failpoints: &str) -> bool {
    let mut machine = Machine::new(capability(access), failpoints).await;
    first_half(&mut machine).await;
    second_half(&mut machine).await;
    machine.died
}

#[tokio::test]
async fn on_ext4() {
    assert!(!life(filesystem("ext4"), "off").await);
}

#[tokio::test]
async fn on_xfs() {
    assert!(!life(filesystem("xfs"), "off").await);
}

#[tokio::test]
async fn on_btrfs() {
    assert!(!life(filesystem("btrfs"), "off").await);
}

#[tokio::test]
async fn on_a_bare_device() {
    assert!(!life(AccessType::Block(BlockVolume {}), "off").await);
}

/// Goal: wherever the driver is killed, repeating the call completes it, every byte stays, and nothing leaks.
/// Method: kill it at each failpoint in turn until a life passes untouched.
async fn killed_everywhere(access: AccessType) -> u64 {
    let mut hit = 1;
    while life(access.clone(), &hit.to_string()).await {
        hit += 1;
        assert!(hit < HITS_MAX);
    }
    hit - 1
}

#[tokio::test]
async fn killed_at_any_failpoint_on_a_filesystem() {
    let hits = killed_everywhere(filesystem("ext4")).await;
    println!("{hits} failpoints hit");
    assert!(hits > 80, "a life has more failpoints than {hits}");
}

#[tokio::test]
async fn killed_at_any_failpoint_on_a_bare_device() {
    let hits = killed_everywhere(AccessType::Block(BlockVolume {})).await;
    println!("{hits} failpoints hit");
    assert!(hits > 60, "a life has more failpoints than {hits}");
}

/// The images say what they are: without any record the volumes and snapshots are back after a start.
async fn without_records(access: AccessType) {
    let mut machine = Machine::new(capability(access), "off").await;
    first_half(&mut machine).await;
    machine.take_down("origin", 1).await;
    let records = records(&machine);
    assert!(records.len() >= 3, "{records:?}");
    for record in &records {
        std::fs::remove_file(record).unwrap();
    }
    machine.kill().await;
    machine.set_up("origin", 1).await;
    assert_holds(&machine.target("origin"), &[0, 1, 2], "recovered");
    second_half(&mut machine).await;
}

fn records(machine: &Machine) -> Vec<std::path::PathBuf> {
    let kinds = ["pool/volumes", "pool/snapshots"].map(|kind| machine.scratch.path(kind));
    let things = kinds.iter().flat_map(|kind| std::fs::read_dir(kind).unwrap());
    things.map(|thing| thing.unwrap().path().join("record.json")).collect()
}

#[tokio::test]
async fn recovered_without_records_on_ext4() {
    without_records(filesystem("ext4")).await;
}

#[tokio::test]
async fn recovered_without_records_on_a_bare_device() {
    without_records(AccessType::Block(BlockVolume {})).await;
}
