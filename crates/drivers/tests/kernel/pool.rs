//! A pool on a disk of its own: full, read-only, and with images and devices that go away.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use bowline_drivers::local::check::check;
use bowline_host::real::{RealConfig, host};
use bowline_proto::csi::v1::volume_capability::AccessType;
use bowline_proto::csi::v1::volume_capability::BlockVolume;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::filesystem;
use crate::journey::{Answer, Caller, Scratch, serve};

/// Larger than a volume of the journey, so that sizes are not what is refused.
const DISK: u64 = 96 << 20;

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A pool on an ext4 with the smallest blocks there are, which leave the least room for labels.
fn small_disk(scratch: &Scratch) {
    let (image, pool) = (scratch.path("disk"), scratch.path("pool"));
    fs::File::create(&image).unwrap().set_len(DISK).unwrap();
    fs::create_dir(&pool).unwrap();
    let (image, pool) = (image.to_str().unwrap(), pool.to_str().unwrap());
    run("mkfs.ext4", &["-q", "-b", "1024", image]);
    run("mount", &["-o", "loop", image, pool]);
}

/// Takes all room but `left` bytes.
fn fill(scratch: &Scratch, left: u64) {
    let mut file = fs::File::create(scratch.path("pool/filler")).unwrap();
    let (mut before, mut length) = (1, 0);
    // What was set aside for a write is free again, in part, when the write is on disk.
    while before != length {
        before = length;
        while let Ok(count) = file.write(&[1; 1024]) {
            length += count as u64;
        }
        let _ = file.sync_all();
    }
    file.set_len(length.saturating_sub(left)).unwrap();
    file.sync_all().unwrap();
}

fn make_room(scratch: &Scratch) {
    fs::remove_file(scratch.path("pool/filler")).unwrap();
}

fn refused(answer: Answer, what: &str) {
    let Err(status) = answer else { panic!("{what} found room") };
    assert_eq!(status.code(), Code::ResourceExhausted, "{what}: {status}");
    assert!(status.message().contains("no room"), "{what}: {status}");
}

/// Goal: what needs room says so, what needs none works, no data is lost, and all goes on when there is room.
#[tokio::test]
async fn a_full_disk() {
    let scratch = Scratch::new();
    small_disk(&scratch);
    let (running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);

    fill(&scratch, 0);
    refused(caller.create().await, "create");
    make_room(&scratch);
    caller.create().await.unwrap();
    fill(&scratch, 0);
    refused(caller.attach().await, "attach");
    make_room(&scratch);
    caller.attach().await.unwrap();
    // Enough for records and labels, too little for a filesystem: mkfs meets an input/output error.
    fill(&scratch, 64 << 10);
    refused(caller.stage().await, "stage");
    make_room(&scratch);
    caller.stage().await.unwrap();
    caller.publish().await.unwrap();
    caller.write();

    fill(&scratch, 0);
    caller.unpublish().await.unwrap();
    caller.unstage().await.unwrap();
    refused(caller.detach().await, "detach");
    make_room(&scratch);
    caller.detach().await.unwrap();
    caller.set_up().await.unwrap();
    caller.read();
    caller.take_down().await.unwrap();

    fill(&scratch, 0);
    caller.delete().await.expect("a full disk does not keep its volumes from being deleted");
    assert_eq!(fs::read_dir(scratch.path("pool/volumes")).unwrap().count(), 0);
    end(running, stop).await;
    run("umount", &[scratch.path("pool").to_str().unwrap()]);
}

async fn end(running: JoinHandle<()>, stop: CancellationToken) {
    stop.cancel();
    running.await.unwrap();
}

/// Goal: a pool that turns read-only can be taken down, also by a driver that starts on it.
#[tokio::test]
async fn a_read_only_disk() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    let pool = scratch.path("pool");
    let pool = pool.to_str().unwrap();
    run("mount", &["--bind", pool, pool]);
    run("mount", &["-o", "remount,bind,ro", pool]);
    assert_eq!(caller.detach().await.unwrap_err().code(), Code::FailedPrecondition);
    caller.unpublish().await.unwrap();
    caller.publish().await.unwrap();
    end(running, stop).await;

    let (running, stop) = serve(&scratch).await;
    caller.unpublish().await.unwrap();
    caller.unstage().await.unwrap();
    let status = caller.delete().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    run("mount", &["-o", "remount,bind,rw", pool]);
    caller.detach().await.unwrap();
    caller.set_up().await.unwrap();
    caller.read();
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    end(running, stop).await;
    run("umount", &[pool]);
    scratch.assert_clean();
}

fn devices_of(image: &Path) -> Vec<String> {
    let output = Command::new("losetup").arg("-j").arg(image).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| Some(line.split(':').next()?.to_owned())).collect()
}

/// A device file without image, as a target shows it whose device somebody detached. No other test can get it.
struct Stale(String);

impl Stale {
    fn new() -> Self {
        let number = (50_000 + std::process::id() % 10_000).to_string();
        let device = format!("/dev/loop{number}");
        run("mknod", &[&device, "b", "7", &number]);
        Self(device)
    }
}

impl Drop for Stale {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Goal: a device that somebody detached is no reason to be stuck.
#[tokio::test]
async fn a_device_that_vanishes() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    let image = scratch.path("pool/volumes/pvc-1/disk.img");
    caller.create().await.unwrap();
    caller.set_up().await.unwrap();
    caller.write();
    caller.unpublish().await.unwrap();
    // A driver that runs has the device open and keeps it.
    end(running, stop).await;
    for device in devices_of(&image) {
        run("losetup", &["-d", &device]);
    }
    assert_eq!(devices_of(&image), Vec::<String>::new());
    let (running, stop) = serve(&scratch).await;
    assert_eq!(caller.publish().await.unwrap_err().code(), Code::FailedPrecondition, "not staged any more");

    let stale = Stale::new();
    let target = caller.target.to_str().unwrap();
    fs::write(target, "").unwrap();
    run("mount", &["--bind", &stale.0, target]);
    caller.unpublish().await.unwrap();
    assert!(!caller.target.exists());

    caller.stage().await.unwrap();
    caller.publish().await.unwrap();
    caller.read();
    caller.take_down().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    end(running, stop).await;
}

/// Goal: the audit sees a device over a deleted image, and the next start lets it go.
#[tokio::test]
async fn a_device_over_a_deleted_image() {
    let scratch = Scratch::new();
    let (running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    caller.create().await.unwrap();
    caller.attach().await.unwrap();
    caller.stage().await.unwrap();
    let image = scratch.path("pool/volumes/pvc-1/disk.img");
    let device = devices_of(&image).pop().unwrap();
    fs::remove_file(&image).unwrap();
    let machine = host(RealConfig::new(scratch.path("state"))).unwrap();
    let report = check(&machine, &scratch.path("pool")).await.unwrap();
    let reasons: Vec<_> = report.findings.iter().map(|finding| finding.reason).collect();
    assert_eq!(reasons, ["ImageMissing", "DeletedImageAttached"]);
    end(running, stop).await;

    let backing =
        Path::new("/sys/block").join(Path::new(&device).file_name().unwrap()).join("loop/backing_file");
    assert!(fs::read_to_string(&backing).unwrap().contains(scratch.path("pool").to_str().unwrap()));
    let (running, stop) = serve(&scratch).await;
    let left = fs::read_to_string(&backing).unwrap_or_default();
    assert!(!left.contains(scratch.path("pool").to_str().unwrap()), "still attached: {left}");
    assert_eq!(caller.stage().await.unwrap_err().code(), Code::DataLoss);
    caller.unstage().await.unwrap();
    caller.detach().await.unwrap();
    caller.delete().await.unwrap();
    scratch.assert_clean();
    end(running, stop).await;
}
