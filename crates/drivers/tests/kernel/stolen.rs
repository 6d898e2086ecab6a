//! Loop devices that are cleared behind the driver's back, and numbers that become another file's.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_drivers::local::check::check;
use bowline_host::real::{RealConfig, host};
use bowline_proto::csi::v1 as csi;
use tonic::Code;

use crate::broken::{attach_as, device_of};
use crate::journey::{Answer, Scratch, serve};
use crate::volume::{Volume, text, tool};

/// Past everything a probe looks at.
const OFFSET: u64 = 5 << 20;
/// Far more than any call takes, far less than for ever.
const BOUND: Duration = Duration::from_secs(60);

fn block(scratch: &Scratch) -> Volume {
    let mut volume = Volume::new(scratch, "v", "");
    volume.block = true;
    volume
}

fn write(path: &Path, bytes: &[u8]) {
    assert!(fs::metadata(path).unwrap().file_type().is_block_device());
    let mut device = OpenOptions::new().write(true).open(path).unwrap();
    device.seek(SeekFrom::Start(OFFSET)).unwrap();
    device.write_all(bytes).unwrap();
    device.sync_all().unwrap();
}

fn read(path: &Path) -> [u8; 4] {
    let (mut file, mut bytes) = (File::open(path).unwrap(), [0; 4]);
    file.seek(SeekFrom::Start(OFFSET)).unwrap();
    file.read_exact(&mut bytes).unwrap();
    bytes
}

/// A file of somebody else with a pattern where the tests look.
fn other_file(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("other.img");
    let mut file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    file.seek(SeekFrom::Start(OFFSET)).unwrap();
    file.write_all(b"DATA").unwrap();
    path
}

/// What `LOOP_CLR_FD` on the device does, which is all that `losetup -d` is.
fn clear(device: &str) {
    tool("losetup", &["-d", device]);
}

async fn bounded<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, answer).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

fn refused(answer: Answer, parts: &[&str]) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    for part in parts {
        assert!(status.message().contains(part), "{part} in {status}");
    }
}

/// Goal: a pod that clears its own device while the driver runs keeps it, also when the driver ends and starts again.
#[tokio::test]
async fn a_device_cleared_while_served_stays() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let volume = block(&scratch);
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    write(&volume.target, b"mine");
    let device = device_of(&volume.image);
    clear(&device);
    assert_eq!(device_of(&volume.image), device, "the driver has it open");
    assert_eq!(&read(&volume.target), b"mine");
    stop.cancel();
    running.await.unwrap();
    assert_eq!(device_of(&volume.image), device, "outlives the driver");

    let (_running, stop) = serve(&scratch).await;
    clear(&device);
    volume.publish().await.expect("published already, and the request is withdrawn");
    assert!(!is_to_be_cleared(&device));
    assert_eq!(&read(&volume.target), b"mine");
    bounded("unpublish", volume.unpublish()).await.unwrap();
    bounded("unstage", volume.unstage()).await.unwrap();
    bounded("delete", volume.delete()).await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}

fn is_to_be_cleared(device: &str) -> bool {
    let autoclear = Path::new("/sys/block").join(&device[5..]).join("loop/autoclear");
    fs::read_to_string(autoclear).unwrap().trim() == "1"
}

async fn stats(volume: &Volume) -> csi::NodeGetVolumeStatsResponse {
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: volume.id.clone(),
        volume_path: text(&volume.target),
        ..Default::default()
    };
    bounded("stats", volume.node().node_get_volume_stats(request)).await.unwrap().into_inner()
}

/// Goal: figures are told without changing anything: a detach that is under way goes on.
#[tokio::test]
async fn stats_withdraw_no_request_to_clear_a_device() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    for (name, is_block) in [("b", true), ("m", false)] {
        let mut volume = Volume::new(&scratch, name, if is_block { "" } else { "ext4" });
        volume.block = is_block;
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        let device = device_of(&volume.image);
        clear(&device);
        assert!(is_to_be_cleared(&device), "held by the driver");
        stats(&volume).await;
        assert!(is_to_be_cleared(&device), "{name}");
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    scratch.assert_clean();
    stop.cancel();
}

/// Goal: a device that another file took over while no driver ran is refused and reported; teardown, a second staging and
/// deletion end, and nothing of the other owner is touched.
#[tokio::test]
async fn a_block_device_that_another_took_over() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let volume = block(&scratch);
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    write(&volume.target, b"mine");
    let device = device_of(&volume.image);
    stop.cancel();
    running.await.unwrap();
    let other = other_file(&scratch);
    clear(&device);
    attach_as(&device, &other).await;
    assert_eq!(&read(&volume.target), b"DATA", "as the attacker sees it");

    let (_running, stop) = serve(&scratch).await;
    let parts = [device.as_str(), "other.img", "disk.img", "NodeUnpublishVolume"];
    refused(bounded("stage", volume.stage()).await, &parts);
    refused(bounded("publish", volume.publish()).await, &parts);
    refused(bounded("unstage", volume.unstage()).await, &["published at"]);
    let stats = stats(&volume).await;
    assert!(stats.usage.is_empty() && stats.volume_condition.unwrap().abnormal);
    let machine = host(RealConfig::new(scratch.path("state-of-check"))).unwrap();
    let report = check(&machine, &scratch.path("pool")).await.unwrap();
    assert!(report.findings.iter().any(|finding| finding.reason == "DeviceTaken"), "{report:?}");

    // A second volume does not get a device that a target shows.
    let mut second = Volume::new(&scratch, "w", "");
    second.block = true;
    second.create().await.unwrap();
    second.up().await.unwrap();
    second.down().await.unwrap();
    second.delete().await.unwrap();

    bounded("unpublish", volume.unpublish()).await.unwrap();
    bounded("unstage", volume.unstage()).await.unwrap();
    assert_eq!(device_of(&other), device, "still the other's");
    bounded("stage", volume.up()).await.unwrap();
    assert_ne!(device_of(&volume.image), device);
    assert_eq!(&read(&volume.target), b"mine");
    bounded("take down", volume.down()).await.unwrap();
    bounded("delete", volume.delete()).await.unwrap();
    assert_eq!(device_of(&other), device, "still the other's");
    assert_eq!(&read(Path::new(&device)), b"DATA", "untouched");
    clear(&device);
    scratch.assert_clean();
    stop.cancel();
}

/// Goal: a device that was cleared and is free is not given to another volume while a target shows it.
#[tokio::test]
async fn a_cleared_number_is_not_given_away() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let volume = block(&scratch);
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    let device = device_of(&volume.image);
    stop.cancel();
    running.await.unwrap();
    clear(&device);

    let (_running, stop) = serve(&scratch).await;
    let mut victims = Vec::new();
    for name in ["a", "b", "c"] {
        let victim = Volume::new(&scratch, name, "ext4");
        victim.create().await.unwrap();
        victim.up().await.unwrap();
        assert_ne!(device_of(&victim.image), device, "{name}");
        victims.push(victim);
    }
    bounded("unpublish", volume.unpublish()).await.unwrap();
    bounded("unstage", volume.unstage()).await.unwrap();
    bounded("delete", volume.delete()).await.unwrap();
    for victim in victims {
        bounded("take down", victim.down()).await.unwrap();
        bounded("delete", victim.delete()).await.unwrap();
    }
    scratch.assert_clean();
    stop.cancel();
}

/// Goal: a filesystem whose device is cleared and whose staging is unmounted by hand goes on, and goes away.
#[tokio::test]
async fn a_filesystem_that_is_taken_apart_by_hand() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new();
        let (_running, stop) = serve(&scratch).await;
        let mut volume = Volume::new(&scratch, "v", fs_type);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        fs::write(volume.target.join("file"), "data").unwrap();
        let device = device_of(&volume.image);
        clear(&device);
        tool("umount", &["-l", &text(&volume.staging)]);
        let first = std::mem::replace(&mut volume.target, scratch.path("pods/second"));
        bounded("publish", volume.publish()).await.expect(fs_type);
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data", "{fs_type}");
        bounded("unpublish", volume.unpublish()).await.expect(fs_type);
        volume.target = first;
        bounded("unpublish", volume.unpublish()).await.expect(fs_type);

        // Now nothing shows it: its device was cleared and its last mount taken off.
        clear(&device);
        tool("umount", &[&text(&volume.staging)]);
        bounded("publish", volume.publish()).await.expect(fs_type);
        assert_eq!(fs::read(volume.target.join("file")).unwrap(), b"data", "{fs_type}");
        bounded("take down", volume.down()).await.expect(fs_type);
        bounded("delete", volume.delete()).await.expect(fs_type);
        scratch.assert_clean();
        stop.cancel();
    }
}

/// Goal: a device file in a volume opens nothing, and a set-uid program stays what it is.
#[tokio::test]
async fn device_files_in_a_volume_do_not_work() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let volume = Volume::new(&scratch, "v", "ext4");
    volume.create().await.unwrap();
    volume.up().await.unwrap();
    for place in [&volume.staging, &volume.target] {
        let options = Volume::options(place);
        for word in ["nodev", "nosuid", "errors=remount-ro"] {
            assert!(options.split(',').any(|option| option == word), "`{word}` in {options}");
        }
    }
    let node = volume.target.join("null");
    assert!(Command::new("mknod").arg(&node).args(["c", "1", "3"]).status().unwrap().success());
    assert_eq!(File::open(&node).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    volume.down().await.unwrap();
    volume.delete().await.unwrap();
    scratch.assert_clean();
    stop.cancel();
}
