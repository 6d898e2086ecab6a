//! Wherever the driver dies or an effect fails, repeating the call completes the journey.

use bowline_proto::csi::v1::NodePublishVolumeRequest;
use tonic::Status;

use super::world::{Answer, World, publish, target, with_group};
use crate::doors::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Expand,
    Publish,
    PublishInline,
    Write,
    Read,
    Unpublish,
    Delete,
}

/// Twice through publishing, so that data meets every step that could destroy it.
const CLAIM: [Step; 9] = [
    Step::Create,
    Step::Publish,
    Step::Write,
    Step::Expand,
    Step::Unpublish,
    Step::Publish,
    Step::Read,
    Step::Unpublish,
    Step::Delete,
];

const INLINE: [Step; 5] =
    [Step::PublishInline, Step::Write, Step::PublishInline, Step::Read, Step::Unpublish];

/// A call that keeps failing is broken, not unlucky.
const TRIES_MAX: usize = 3;

async fn perform(world: &World, step: Step) -> Answer {
    let file = target("a").join("file");
    match step {
        Step::Create => world.create("v").await,
        Step::Expand => world.expand("v", 1 << 30).await,
        Step::Publish => {
            let capability = Some(with_group("1000"));
            let request = NodePublishVolumeRequest { volume_capability: capability, ..publish("v", "a") };
            world.node().node_publish_volume(request).await.map(drop)
        }
        Step::PublishInline => world.publish_inline("v", "a").await,
        Step::Unpublish => world.unpublish("v", "a").await,
        Step::Delete => world.delete("v").await,
        Step::Write => world.write(&file).await.map_err(io),
        Step::Read => {
            assert_eq!(world.host.disk.read(&file).await.map_err(io)?, b"data");
            Ok(())
        }
    }
}

fn io(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

/// Runs the journey under a fault. Returns whether the fault struck.
async fn survives(fault: Fault, journey: &[Step]) -> bool {
    let mut world = World::with_fault(fault).await;
    let mut struck = false;
    for step in journey {
        let mut tries = 0;
        loop {
            let died = tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = perform(&world, *step) => Some(answer),
            };
            match died {
                Some(Ok(())) => break,
                Some(Err(status)) => {
                    assert!(tries < TRIES_MAX, "{fault:?}: {step:?} keeps failing: {status}");
                    tries += 1;
                }
                None => world = world.restart().await,
            }
            struck = true;
        }
    }
    world.assert_clean(&format!("{fault:?}")).await;
    struck
}

/// Goal: dying or failing at any effect leaves one volume, its data, and at the end nothing.
/// Method: strike at each effect in turn until a run passes untouched, so every effect was hit once.
async fn sweep(kind: fn(u64) -> Fault, journey: &[Step]) -> u64 {
    let mut number = 1;
    while survives(kind(number), journey).await {
        number += 1;
    }
    number - 1
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_effect() {
    assert!(sweep(Fault::DieBefore, &CLAIM).await >= 20);
    assert!(sweep(Fault::DieBefore, &INLINE).await >= 12);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect() {
    assert!(sweep(Fault::DieAfter, &CLAIM).await >= 20);
    assert!(sweep(Fault::DieAfter, &INLINE).await >= 12);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_effect() {
    assert!(sweep(Fault::Fail, &CLAIM).await >= 20);
    assert!(sweep(Fault::Fail, &INLINE).await >= 12);
}
