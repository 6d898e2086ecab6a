//! What is on a device, and NODE-2: a device that holds data is never formatted.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_host::kernel::Content;
use rustix::fs::XattrFlags;

use crate::world::World;

const MARK: &str = "trusted.bowline.formatting";

fn write_at(device: &Path, position: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(device).unwrap();
    file.seek(SeekFrom::Start(position)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// A master boot record with one Linux partition.
fn boot_record() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[446..462].copy_from_slice(&[0x80, 1, 1, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

#[tokio::test]
async fn node_2_a_device_with_data_is_never_formatted() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let end = (64 << 20) - 4096;
    for (name, position, bytes) in [
        ("partitioned", 0, boot_record().to_vec()),
        ("garbage", 4096, b"somebody's database".to_vec()),
        ("backup at the end", end, vec![7; 512]),
        ("swap", 4086, b"SWAPSPACE2".to_vec()),
    ] {
        let device = world.device(name, 64).await;
        assert_eq!(kernel.content(&device).await.unwrap(), Content::Empty, "{name}");
        write_at(&device, position, &bytes);
        let content = kernel.content(&device).await.unwrap();
        assert!(matches!(content, Content::Other(_)), "{name}: {content:?}");
        for fs_type in ["ext4", "xfs", "btrfs"] {
            let error = kernel.make_filesystem(&device, fs_type, &[]).await.unwrap_err().to_string();
            assert!(error.contains("holds data"), "{error}");
        }
        let mut found = vec![0; bytes.len()];
        let mut file = File::open(&device).unwrap();
        file.seek(SeekFrom::Start(position)).unwrap();
        file.read_exact(&mut found).unwrap();
        assert_eq!(found, bytes, "{name}");
        drop(file);
        kernel.loop_detach(&device).await.unwrap();
    }
}

/// Bytes that have not reached the image yet are data all the same.
#[tokio::test]
async fn node_2_holds_for_bytes_still_in_memory() {
    let world = World::new();
    let device = world.device("image", 64).await;
    let mut writer = OpenOptions::new().write(true).open(&device).unwrap();
    writer.write_all(b"not synced").unwrap();
    let content = world.host.kernel.content(&device).await.unwrap();
    assert_eq!(content, Content::Other("unknown data".into()));
    drop(writer);
    world.host.kernel.loop_detach(&device).await.unwrap();
}

#[tokio::test]
async fn filesystems_are_recognised_and_kept() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (device, target) = world.mounted(fs_type, fs_type).await;
        std::fs::write(target.join("file"), "precious").unwrap();
        kernel.unmount(&target).await.unwrap();
        assert_eq!(kernel.content(&device).await.unwrap(), Content::Filesystem(fs_type.into()));
        assert!(kernel.make_filesystem(&device, fs_type, &[]).await.is_err());
        kernel.mount(&device, &target, fs_type, &[]).await.unwrap();
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "precious");
        kernel.unmount(&target).await.unwrap();
        world.detach(&device).await;
    }
    // Written and zeroed again: not a hole any more, yet empty at every place that counts.
    let zeroed = world.device("zeroed", 64).await;
    write_at(&zeroed, 0, &vec![0; 4 << 20]);
    assert_eq!(kernel.content(&zeroed).await.unwrap(), Content::Empty);
    kernel.make_filesystem(&zeroed, "ext4", &[]).await.unwrap();
    assert_eq!(kernel.content(&zeroed).await.unwrap(), Content::Filesystem("ext4".into()));
    kernel.loop_detach(&zeroed).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_device_is_an_error_and_not_empty() {
    let world = World::new();
    let kernel = &world.host.kernel;
    assert!(kernel.content(Path::new("/dev/no-such-device")).await.is_err());
    // A free loop device with a number that no other test is given: a detached one may be taken again at once.
    let device = world.path("free");
    let number = rustix::fs::makedev(7, 4000);
    let (kind, mode) = (rustix::fs::FileType::BlockDevice, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &device, kind, mode, number).unwrap();
    let error = kernel.content(&device).await.unwrap_err().to_string();
    assert!(error.contains("no size") || error.contains("no such device"), "{error}");
}

/// A crash between the first byte and the last must not block the volume, nor cost a finished filesystem.
#[tokio::test]
async fn interrupted_formatting_begins_anew_and_finished_formatting_stays() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let name = format!("{fs_type}.half");
        let device = world.device(&name, 320).await;
        let mark = || {
            rustix::fs::setxattr(world.path(&name), MARK, b"1", XattrFlags::empty()).unwrap();
        };
        mark();
        write_at(&device, 1 << 16, b"first words of a filesystem");
        assert_eq!(kernel.content(&device).await.unwrap(), Content::Empty);
        kernel.make_filesystem(&device, fs_type, &[]).await.unwrap();
        assert!(rustix::fs::getxattr(world.path(&name), MARK, &mut [0; 1]).is_err(), "the mark is gone");

        mark();
        assert_eq!(kernel.content(&device).await.unwrap(), Content::Filesystem(fs_type.into()));
        assert!(kernel.make_filesystem(&device, fs_type, &[]).await.is_err());

        // Half a filesystem: its head is there, most of the rest is not.
        mark();
        write_at(&device, 8192, &vec![0; 60 << 20]);
        assert_eq!(kernel.content(&device).await.unwrap(), Content::Empty);
        kernel.make_filesystem(&device, fs_type, &[]).await.unwrap();
        kernel.loop_detach(&device).await.unwrap();
    }
}

#[tokio::test]
async fn errors_that_fsck_cannot_correct_are_errors() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let device = world.device("image", 64).await;
    kernel.make_filesystem(&device, "ext4", &[]).await.unwrap();
    kernel.check_filesystem(&device, "ext4").await.unwrap();
    let debug = |commands: &str| {
        let mut debugfs = Command::new("debugfs");
        let debugfs = debugfs.args(["-w", "-f", "-"]).arg(&device);
        let debugfs = debugfs.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut debugfs = debugfs.unwrap();
        debugfs.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        assert!(debugfs.wait().unwrap().success());
    };
    debug("ssv state 2\n");
    kernel.check_filesystem(&device, "ext4").await.unwrap();
    // No root directory: repairing that is a decision, which fsck does not take alone.
    debug("ssv state 2\nclri <2>\n");
    let error = kernel.check_filesystem(&device, "ext4").await.unwrap_err().to_string();
    assert!(error.contains("fsck.ext4") && error.contains("Root inode"), "{error}");
    kernel.check_filesystem(&device, "nosuchfs").await.unwrap();
    assert!(kernel.has_tool("mkfs.ext4") && !kernel.has_tool("mkfs.nosuchfs"));
    kernel.loop_detach(&device).await.unwrap();
}

/// Of two options of one kind a tool takes the last without a word; it must be the caller's.
#[tokio::test]
async fn options_of_the_caller_win() {
    let world = World::new();
    let device = world.device("image", 64).await;
    let options = ["-m", "5", "-L", "mine", "-E", "root_owner=7:8"].map(String::from);
    world.host.kernel.make_filesystem(&device, "ext4", &options).await.unwrap();
    let target = world.dir("mounted");
    world.host.kernel.mount(&device, &target, "ext4", &[]).await.unwrap();
    let metadata = std::fs::metadata(&target).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (7, 8));
    let space = rustix::fs::statvfs(&target).unwrap();
    assert!(space.f_bfree > space.f_bavail, "some blocks are reserved");
    world.host.kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

/// A copy taken while mounted is what a crash leaves: the check replays its journal.
#[tokio::test]
async fn a_filesystem_in_use_is_checked_before_it_is_used_again() {
    let world = World::new();
    let (kernel, disk) = (&world.host.kernel, &world.host.disk);
    let (device, target) = world.mounted("image", "ext4").await;
    disk.write_atomic(&target.join("file"), b"synced", 0o600).await.unwrap();
    disk.copy(&world.path("image"), &world.path("crashed")).await.unwrap();
    kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;

    let device = kernel.loop_attach(&world.path("crashed"), false).await.unwrap();
    let recovery = || {
        let mut flags = [0; 1];
        File::open(&device).unwrap().read_exact_at(&mut flags, 1024 + 0x60).unwrap();
        flags[0] & 4 != 0
    };
    assert!(recovery(), "the journal is in use");
    kernel.check_filesystem(&device, "ext4").await.unwrap();
    assert!(!recovery(), "the journal was replayed");
    kernel.mount(&device, &target, "ext4", &[]).await.unwrap();
    assert_eq!(disk.read(&target.join("file")).await.unwrap(), b"synced");
    kernel.unmount(&target).await.unwrap();
    world.detach(&device).await;
}

/// Whoever asked may stop waiting at any time; the tool is not cut short, and its end is noted.
#[tokio::test]
async fn formatting_goes_on_when_nobody_waits() {
    let world = World::new();
    let kernel = &world.host.kernel;
    for name in ["first", "second", "third", "fourth", "fifth"] {
        let device = world.device(name, 320).await;
        let marked = || rustix::fs::getxattr(world.path(name), MARK, &mut [0; 1]).is_ok();
        let begun = async {
            while !marked() {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::select! {
            biased;
            () = begun => false,
            made = kernel.make_filesystem(&device, "xfs", &[]) => { made.unwrap(); true }
        };
        if !waited {
            return goes_on(&world, name, &device).await;
        }
        // The tool had a processor and this thread had none. Another one.
        kernel.loop_detach(&device).await.unwrap();
    }
    panic!("the tool is always faster");
}

async fn goes_on(world: &World, name: &str, device: &Path) {
    let kernel = &world.host.kernel;
    let marked = || rustix::fs::getxattr(world.path(name), MARK, &mut [0; 1]).is_ok();
    let written = || std::fs::metadata(world.path(name)).unwrap().blocks() > 0;
    let done = async {
        // Marked before the first byte, unmarked after the last.
        while !written() || marked() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.unwrap();
    assert_eq!(kernel.content(device).await.unwrap(), Content::Filesystem("xfs".into()));
    kernel.loop_detach(device).await.unwrap();
}

/// A tool outlives the process that started it; the next process waits its turn instead of starting a second one.
#[tokio::test]
async fn a_tool_that_is_at_work_is_left_alone() {
    let world = World::new();
    let kernel = &world.host.kernel;
    let device = world.device("image", 128).await;
    let at_work = || {
        let locked = OpenOptions::new().write(true).open(&device).unwrap();
        rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
        Command::new("sleep").arg("60").stdin(Stdio::from(locked)).spawn().unwrap()
    };
    let end = |mut tool: std::process::Child| {
        tool.kill().unwrap();
        tool.wait().unwrap();
    };
    let tool = at_work();
    let busy = kernel.make_filesystem(&device, "btrfs", &[]).await.unwrap_err();
    assert_eq!(busy.errno, Some(nix::libc::EBUSY), "{busy}");
    assert_eq!(kernel.content(&device).await.unwrap(), Content::Empty);
    end(tool);
    kernel.make_filesystem(&device, "btrfs", &[]).await.unwrap();
    let tool = at_work();
    assert_eq!(kernel.renew_identity(&device, "btrfs").await.unwrap_err().errno, Some(nix::libc::EBUSY));
    end(tool);
    kernel.renew_identity(&device, "btrfs").await.unwrap();
    kernel.loop_detach(&device).await.unwrap();
}
