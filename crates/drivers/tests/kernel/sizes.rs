//! Growth on a real kernel, with data that must stay what it was.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessType, BlockVolume};
use tonic::{Code, Status};

use crate::filesystem;
use crate::journey::{Caller, Scratch, VOLUME, serve, text};

pub const MIB: i64 = 1 << 20;

pub async fn expand(caller: &Caller, required_bytes: i64) -> Result<bool, Status> {
    let request = csi::ControllerExpandVolumeRequest {
        volume_id: VOLUME.into(),
        capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
        ..Default::default()
    };
    let answer = caller.controller().controller_expand_volume(request).await?.into_inner();
    assert_eq!(answer.capacity_bytes, required_bytes);
    Ok(answer.node_expansion_required)
}

pub async fn node_expand(caller: &Caller, path: &Path) -> Result<i64, Status> {
    let request = csi::NodeExpandVolumeRequest {
        volume_id: VOLUME.into(),
        volume_path: text(path),
        ..Default::default()
    };
    Ok(caller.node().node_expand_volume(request).await?.into_inner().capacity_bytes)
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn image(scratch: &Scratch) -> PathBuf {
    scratch.path("pool/volumes").join(VOLUME).join("disk.img")
}

/// Bytes that look like nothing and differ from block to block.
pub fn pattern(length: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Numbered files whose content follows from their number.
struct Writer {
    stop: Arc<AtomicBool>,
    writing: std::thread::JoinHandle<u64>,
}

impl Writer {
    const SIZE: usize = 64 << 10;

    fn start(dir: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let writing = std::thread::spawn(move || {
            let mut number = 0;
            while !stopped.load(Ordering::SeqCst) {
                let file = File::create(dir.join(number.to_string())).unwrap();
                file.write_all_at(&pattern(Self::SIZE, number), 0).unwrap();
                file.sync_all().unwrap();
                number += 1;
            }
            number
        });
        Self { stop, writing }
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.writing.join().unwrap()
    }

    fn check(dir: &Path, count: u64) {
        for number in 0..count {
            let bytes = fs::read(dir.join(number.to_string())).unwrap();
            assert!(bytes == pattern(Self::SIZE, number), "file {number} of {count} changed");
        }
    }
}

/// Bytes of the filesystem at a path, and those available to anybody.
pub fn statfs(path: &Path) -> (i64, i64) {
    let numbers = run("stat", &["-f", "-c", "%S %b %a", &text(path)]);
    let numbers: Vec<i64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    (numbers[0] * numbers[1], numbers[0] * numbers[2])
}

pub async fn end(scratch: &Scratch, caller: &Caller) {
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
}

/// Goal: a workload that writes all the time notices nothing but more room.
#[tokio::test(flavor = "multi_thread")]
async fn xfs_grows_while_it_is_written() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let mut caller = Caller::new(&scratch, filesystem("xfs"), Mode::SingleNodeWriter);
    caller.size = 300 * MIB;
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    let writer = Writer::start(caller.target.clone());
    for (size, path) in [(500, &caller.staging), (600, &caller.target)] {
        assert!(expand(&caller, size * MIB).await.unwrap(), "the node has a part");
        let before = statfs(&caller.target).0;
        assert_eq!(node_expand(&caller, path).await.unwrap(), size * MIB);
        assert_eq!(node_expand(&caller, path).await.unwrap(), size * MIB, "again");
        let after = statfs(&caller.target).0;
        assert!(after > before + 90 * MIB, "{before} {after}");
    }
    let count = writer.end();
    assert!(count > 0);
    Writer::check(&caller.target, count);
    run("fallocate", &["-l", "400M", &text(&caller.target.join("large"))]);
    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    Writer::check(&caller.target, count);
    end(&scratch, &caller).await;
    stop.cancel();
}

/// Nobody needs a privilege for what is not mounted.
#[tokio::test]
async fn ext4_grows_when_it_is_staged() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    let data = pattern(20 << 20, 1);
    fs::write(caller.target.join("data"), &data).unwrap();
    caller.take_down().await.unwrap();
    // Beyond one group of blocks, and beyond the room that was left for their descriptors.
    for size in [200, 513, 2049] {
        assert!(expand(&caller, size * MIB).await.unwrap());
        caller.set_up().await.unwrap();
        let total = statfs(&caller.target).0;
        assert!(total > size * MIB * 8 / 10, "{total} of {size} MiB");
        assert!(fs::read(caller.target.join("data")).unwrap() == data, "data changed at {size} MiB");
        assert_eq!(node_expand(&caller, &caller.target).await.unwrap(), size * MIB);
        caller.take_down().await.unwrap();
        run("e2fsck", &["-f", "-n", &text(&image(&scratch))]);
    }
    caller.set_up().await.unwrap();
    run("fallocate", &["-l", "1500M", &text(&caller.target.join("large"))]);
    end(&scratch, &caller).await;
    stop.cancel();
}

/// The end of a device may be too small for a group of blocks. That is found out once, not at every staging, whose
/// full check of a large filesystem takes long.
#[tokio::test]
async fn an_end_that_ext4_cannot_use_is_tried_once() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let mut caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);
    caller.size = 640 * MIB;
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    let record = || fs::read_to_string(image(&scratch).with_file_name("record.json")).unwrap();
    let filled = |size: i64| format!("\"filled\": {}", size * MIB);
    for size in [641, 642] {
        expand(&caller, size * MIB).await.unwrap();
        // Without anything to do no privilege is needed.
        assert_eq!(node_expand(&caller, &caller.target).await.unwrap(), size * MIB);
        assert!(record().contains(&filled(size)), "{}", record());
        caller.take_down().await.unwrap();
        let before = mounts_since_check(&image(&scratch));
        caller.set_up().await.unwrap();
        caller.take_down().await.unwrap();
        assert_eq!(mounts_since_check(&image(&scratch)), before + 1, "{size} MiB");
        caller.set_up().await.unwrap();
    }
    end(&scratch, &caller).await;
    stop.cancel();
}

/// How often an ext4 was mounted since it was last checked in full.
fn mounts_since_check(image: &Path) -> u32 {
    let superblock = run("dumpe2fs", &["-h", &text(image)]);
    let count = superblock.lines().find_map(|line| line.strip_prefix("Mount count:")).unwrap();
    count.trim().parse().unwrap()
}

/// Whether this process may do what the kernel asks of those who grow a mounted ext4.
fn has_cap_sys_resource() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    u64::from_str_radix(effective, 16).unwrap() & (1 << CAP_SYS_RESOURCE) != 0
}

#[tokio::test]
async fn a_mounted_ext4_grows_or_says_what_is_missing() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    expand(&caller, 256 * MIB).await.unwrap();
    let before = statfs(&caller.target).0;
    let answer = node_expand(&caller, &caller.target).await;
    if has_cap_sys_resource() {
        assert_eq!(answer.unwrap(), 256 * MIB);
        assert!(statfs(&caller.target).0 > 200 * MIB);
    } else {
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("CAP_SYS_RESOURCE"), "{refused}");
        assert_eq!(statfs(&caller.target).0, before, "as it was");
    }
    caller.read();
    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    caller.read();
    assert!(statfs(&caller.target).0 > 200 * MIB, "after a restart in any case");
    assert_eq!(node_expand(&caller, &caller.target).await.unwrap(), 256 * MIB);
    end(&scratch, &caller).await;
    stop.cancel();
}

#[tokio::test]
async fn a_block_user_sees_more_of_an_open_device() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    let mut device = OpenOptions::new().read(true).write(true).open(&caller.target).unwrap();
    let data = pattern(1 << 20, 2);
    device.write_all_at(&data, 63 << 20).unwrap();
    assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 64 << 20);

    assert!(!expand(&caller, 128 * MIB).await.unwrap(), "all is done");
    assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 128 << 20);
    device.write_all_at(&data, 127 << 20).unwrap();
    device.sync_all().unwrap();
    let loop_device = PathBuf::from(run("losetup", &["-n", "-O", "NAME", "-j", &text(&image(&scratch))]));
    for path in [&caller.target, &caller.staging, &loop_device] {
        assert_eq!(node_expand(&caller, path).await.unwrap(), 128 * MIB, "{}", path.display());
    }
    drop(device);
    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    let device = File::open(&caller.target).unwrap();
    for offset in [63 << 20, 127 << 20] {
        let mut bytes = vec![0; data.len()];
        device.read_exact_at(&mut bytes, offset).unwrap();
        assert!(bytes == data, "data at {offset} changed");
    }
    drop(device);
    end(&scratch, &caller).await;
    stop.cancel();
}
