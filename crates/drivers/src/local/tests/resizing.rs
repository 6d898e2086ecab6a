//! Growth and settings under crashes: wherever the driver dies or fails, repeating the call completes the journey.

use bowline_host::kernel::Queue;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use super::world::{Answer, MIB, World, block, create, mount_as, target};
use crate::doors::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Attach,
    Stage,
    Publish,
    Write,
    /// To so many MiB.
    Expand(i64),
    NodeExpand,
    Modify,
    Check(i64),
    Unpublish,
    Unstage,
    Detach,
    Delete,
}

/// Grown in use, then while nobody uses it.
const JOURNEY: [Step; 18] = [
    Step::Create,
    Step::Attach,
    Step::Stage,
    Step::Publish,
    Step::Write,
    Step::Expand(400),
    Step::NodeExpand,
    Step::Modify,
    Step::Check(400),
    Step::Unpublish,
    Step::Unstage,
    Step::Expand(500),
    Step::Stage,
    Step::Publish,
    Step::Check(500),
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
];

/// A call that keeps failing is broken, not unlucky.
const TRIES_MAX: usize = 3;

/// `ext4`, `xfs`, or nothing for block.
fn capability(fs: &str) -> csi::VolumeCapability {
    if fs.is_empty() { block() } else { mount_as(fs, Mode::SingleNodeWriter) }
}

async fn perform(world: &World, step: Step, fs: &str) -> Answer {
    let file = target("a").join("file");
    match step {
        Step::Create => world.controller().create_volume(create("v", capability(fs))).await.map(drop),
        Step::Attach => world.attach("v", capability(fs)).await,
        Step::Stage => world.stage("v", capability(fs)).await,
        Step::Publish => world.publish("v", "a", capability(fs)).await,
        Step::Unpublish => world.unpublish("v", "a").await,
        Step::Unstage => world.unstage("v").await,
        Step::Detach => world.detach("v").await,
        Step::Delete => world.delete("v").await,
        Step::Write if fs.is_empty() => Ok(()),
        Step::Write => world.host.disk.write_atomic(&file, b"data", 0o600).await.map_err(io),
        Step::Expand(size) => world.expand("v", size * MIB).await,
        Step::NodeExpand => world.node_expand("v").await,
        Step::Modify => world.modify("v", &[("discard", "false")]).await,
        Step::Check(size) => {
            check(world, size * MIB, fs).await;
            Ok(())
        }
    }
}

fn io(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

/// Image, record, device, filesystem and queue say the same, and the data is there.
async fn check(world: &World, size: i64, fs: &str) {
    let size = size.cast_unsigned();
    assert_eq!(world.host.disk.length(&world.image("v")).await.unwrap(), size);
    let (device, _) = world.machine.loops().remove(0);
    assert_eq!(world.host.kernel.device_size(&device).await.unwrap(), size);
    let queue = Queue { discard: Some(false), read_ahead_kib: None };
    assert_eq!(world.machine.queue(&device), Some(queue));
    let request = csi::ControllerGetVolumeRequest { volume_id: "v".into() };
    let volume = world.controller().controller_get_volume(request).await.unwrap().into_inner().volume;
    assert_eq!(volume.unwrap().capacity_bytes, size.cast_signed());
    if !fs.is_empty() {
        assert_eq!(world.host.kernel.filesystem_size(&device, fs).await.unwrap(), size);
        assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
    }
}

async fn available(world: &World) -> i64 {
    let request = csi::GetCapacityRequest::default();
    world.controller().get_capacity(request).await.unwrap().into_inner().available_capacity
}

/// Runs the journey under a fault. Returns whether the fault struck.
async fn survives(fault: Fault, fs: &str) -> bool {
    let mut world = World::with_fault(fault).await;
    let before = available(&world).await;
    let mut struck = false;
    for step in JOURNEY.into_iter().chain([Step::Delete]) {
        let mut tries = 0;
        loop {
            let died = tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = perform(&world, step, fs) => Some(answer),
            };
            match died {
                Some(Ok(())) => break,
                Some(Err(status)) => {
                    assert!(tries < TRIES_MAX, "{fault:?}: {step:?} of {fs} keeps failing: {status}");
                    tries += 1;
                }
                None => world = world.restart().await,
            }
            struck = true;
        }
    }
    world.assert_clean(&format!("{fault:?} {fs}")).await;
    assert_eq!(available(&world).await, before, "{fault:?} {fs}: all promises are taken back");
    struck
}

/// Goal: dying or failing at any effect loses no data, no size, no setting, and no room in the pool.
/// Method: strike at each effect in turn until a run passes untouched, so every effect was hit once.
async fn sweep(kind: fn(u64) -> Fault) {
    for (fs, effects_min) in [("ext4", 25), ("xfs", 25), ("", 20)] {
        let mut number = 1;
        while survives(kind(number), fs).await {
            number += 1;
        }
        assert!(number > effects_min, "{fs} has more effects than {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_effect() {
    sweep(Fault::DieBefore).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect() {
    sweep(Fault::DieAfter).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_effect() {
    sweep(Fault::Fail).await;
}
