//! Settings of a volume, in the real kernel's queue of its device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessType, BlockVolume, MountVolume};
use tonic::{Code, Status};

use crate::journey::{Caller, Scratch, VOLUME, serve, text};
use crate::sizes::{end, image, pattern, run};

pub async fn modify(caller: &Caller, key: &str, value: &str) -> Result<(), Status> {
    let request = csi::ControllerModifyVolumeRequest {
        volume_id: VOLUME.into(),
        mutable_parameters: [(key.to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    caller.controller().controller_modify_volume(request).await.map(drop)
}

/// Bytes of the pool that the image takes.
fn allocated(scratch: &Scratch) -> u64 {
    fs::metadata(image(scratch)).unwrap().blocks() * 512
}

async fn wait_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} does not happen");
}

const LARGE: usize = 32 << 20;

/// Writes much and deletes it; a filesystem mounted with `discard` says so to its device soon after.
fn write_and_delete(scratch: &Scratch, caller: &Caller) {
    let path = caller.target.join("large");
    fs::write(&path, pattern(LARGE, 3)).unwrap();
    run("sync", &["-f", &text(&caller.target)]);
    assert!(allocated(scratch) > LARGE as u64, "written");
    fs::remove_file(&path).unwrap();
    run("sync", &["-f", &text(&caller.target)]);
}

/// Goal: the policy decides whether deleted files give their room back to the pool.
/// Method: delete the same from two volumes; when the one has given it back, the other still has it.
#[tokio::test]
async fn discards_pass_as_the_policy_says() {
    let mount =
        MountVolume { fs_type: "ext4".into(), mount_flags: vec!["discard".into()], ..Default::default() };
    let (on, off) = (Scratch::new(), Scratch::new());
    let (_running_on, stop_on) = serve(&on).await;
    let (_running_off, stop_off) = serve(&off).await;
    let caller_on = Caller::new(&on, AccessType::Mount(mount.clone()), Mode::SingleNodeWriter);
    let caller_off = Caller::new(&off, AccessType::Mount(mount), Mode::SingleNodeWriter);
    for caller in [&caller_on, &caller_off] {
        caller.create().await.unwrap();
        caller.set_up().await.unwrap();
    }
    modify(&caller_off, "discard", "false").await.unwrap();
    write_and_delete(&off, &caller_off);
    write_and_delete(&on, &caller_on);
    wait_until("the room comes back", || allocated(&on) < LARGE as u64).await;
    assert!(allocated(&off) > LARGE as u64, "the room stays taken");

    let refused = modify(&caller_off, "discard", "true").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    caller_off.take_down().await.unwrap();
    caller_off.set_up().await.unwrap();
    modify(&caller_off, "discard", "true").await.unwrap();
    write_and_delete(&off, &caller_off);
    wait_until("the room comes back again", || allocated(&off) < LARGE as u64).await;
    end(&on, &caller_on).await;
    end(&off, &caller_off).await;
    stop_on.cancel();
    stop_off.cancel();
}

#[tokio::test]
async fn reading_ahead_is_set_in_the_kernel() {
    let scratch = Scratch::new();
    let (_running, stop) = serve(&scratch).await;
    let caller = Caller::new(&scratch, AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter);
    let read_ahead = || {
        let device = run("losetup", &["-n", "-O", "NAME", "-j", &text(&image(&scratch))]);
        run("blockdev", &["--getra", &device]).parse::<u32>().unwrap() / 2
    };
    caller.create().await.unwrap();
    modify(&caller, "readAheadKiB", "64").await.unwrap();
    caller.set_up().await.unwrap();
    assert_eq!(read_ahead(), 64);
    modify(&caller, "readAheadKiB", "512").await.unwrap();
    assert_eq!(read_ahead(), 512);
    caller.take_down().await.unwrap();
    caller.set_up().await.unwrap();
    assert_eq!(read_ahead(), 512);
    end(&scratch, &caller).await;
    stop.cancel();
}
