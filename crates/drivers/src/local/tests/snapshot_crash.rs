//! Wherever the driver dies or an effect fails, snapshots and what is made from them are whole or not there, and
//! no workload is left hanging.

use std::time::Duration;

use bowline_proto::csi::v1 as csi;
use tonic::Code;

use super::restores::{snapshot_source, volume_source};
use super::world::{Answer, World, code, mount};
use crate::doors::Fault;
use crate::id::SnapshotId;

#[derive(Debug, Clone, Copy)]
enum Step {
    Cut,
    CutGroup,
    Restore,
    Clone,
    DeleteSnapshot,
    DeleteGroup,
    Use(&'static str),
    LeaveAndDelete(&'static str),
    Delete(&'static str),
}

const JOURNEY: [Step; 12] = [
    Step::Cut,
    Step::CutGroup,
    Step::Restore,
    Step::Clone,
    Step::DeleteSnapshot,
    Step::DeleteGroup,
    Step::Use("r"),
    Step::Use("c"),
    Step::LeaveAndDelete("r"),
    Step::LeaveAndDelete("c"),
    Step::LeaveAndDelete("v"),
    Step::Delete("w"),
];

/// A call that keeps failing is broken, not unlucky.
const TRIES_MAX: usize = 3;

/// A snapshot that is there has its data, and one that has not is not there.
async fn check(world: &World, why: &str) {
    assert_eq!(world.machine.frozen(), Vec::<std::path::PathBuf>::new(), "{why}: a workload hangs");
    let request = csi::ListSnapshotsRequest::default();
    let page = world.controller().list_snapshots(request).await.unwrap().into_inner();
    let listed: Vec<csi::Snapshot> = page.entries.into_iter().map(|e| e.snapshot.unwrap()).collect();
    for snapshot in &listed {
        assert!(snapshot.ready_to_use, "{why}");
        let image = world.snapshot_image(&snapshot.snapshot_id);
        let length = world.host.disk.length(&image).await.expect("a listed snapshot has its image");
        assert_eq!(i64::try_from(length).unwrap(), snapshot.size_bytes, "{why}");
    }
    let of_group = listed.iter().filter(|snapshot| !snapshot.group_snapshot_id.is_empty()).count();
    assert!(of_group == 0 || of_group == 2, "{why}: half a group shows");
}

async fn perform(world: &World, step: Step) -> Answer {
    match step {
        Step::Cut => world.snapshot("s", "v").await.map(drop),
        Step::CutGroup => world.group("g", &["v", "w"]).await.map(drop),
        Step::Restore => world.make("r", mount(), snapshot_source("s")).await.map(drop),
        Step::Clone => world.make("c", mount(), volume_source("v")).await.map(drop),
        Step::DeleteSnapshot => world.delete_snapshot("s").await,
        Step::DeleteGroup => world.delete_group("g", &group_ids()).await,
        Step::Use(id) => {
            world.attach(id, mount()).await?;
            world.stage(id, mount()).await?;
            world.publish(id, id, mount()).await?;
            assert_eq!(world.read(id).await, "data", "{id}");
            Ok(())
        }
        Step::Delete(id) => world.delete(id).await,
        Step::LeaveAndDelete(id) => {
            world.unpublish(id, id).await?;
            world.unstage(id).await?;
            world.detach(id).await?;
            world.delete(id).await
        }
    }
}

/// The members of the group, which callers remember.
fn group_ids() -> [String; 2] {
    ["g/v", "g/w"].map(|name| SnapshotId::for_name(name).to_string())
}

/// Runs the journey under a fault. Returns whether the fault struck.
async fn survives(fault: Fault) -> bool {
    let world = World::new().await;
    world.in_use("v", "data").await;
    world.create("w").await.unwrap();
    let mut world = world.restart_with(fault).await;
    let mut struck = false;
    for step in JOURNEY {
        let mut tries = 0;
        loop {
            let died = tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = perform(&world, step) => Some(answer),
            };
            let why = format!("{fault:?}: {step:?}");
            match died {
                Some(Ok(())) => break check(&world, &why).await,
                Some(Err(status)) => {
                    assert!(tries < TRIES_MAX, "{why} keeps failing: {status}");
                    tries += 1;
                }
                None => world = world.restart().await,
            }
            check(&world, &why).await;
            struck = true;
        }
    }
    world.assert_clean(&format!("{fault:?}")).await;
    struck || world.faults.struck()
}

/// Goal and method as in `crash`: strike at each effect in turn until a run passes untouched.
async fn sweep(kind: fn(u64) -> Fault) -> u64 {
    let mut number = 1;
    while survives(kind(number)).await {
        number += 1;
    }
    number - 1
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_effect() {
    assert!(sweep(Fault::DieBefore).await >= 60);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect() {
    assert!(sweep(Fault::DieAfter).await >= 60);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_effect() {
    assert!(sweep(Fault::Fail).await >= 60);
}

/// What a crash leaves of a snapshot or group that nobody was promised goes at the next start by itself.
#[tokio::test(start_paused = true)]
async fn nothing_half_made_outlives_a_start() {
    for number in 1.. {
        let world = World::new().await;
        world.in_use("v", "data").await;
        world.create("w").await.unwrap();
        let world = world.restart_with(Fault::DieAfter(number)).await;
        let died = tokio::select! {
            biased;
            () = world.faults.died.notified() => true,
            () = async {
                world.group("g", &["v", "w"]).await.unwrap();
                world.delete_group("g", &group_ids()).await.unwrap();
            } => false,
        };
        let world = world.restart().await;
        check(&world, "restarted").await;
        world.delete_group("g", &group_ids()).await.expect("cut before the crash or not");
        for volume in ["v", "w"] {
            if volume == "v" {
                world.take_down(volume).await;
            }
            world.delete(volume).await.unwrap();
        }
        world.assert_clean(&format!("died after {number}")).await;
        if !died {
            assert!(number > 12, "{number}");
            return;
        }
    }
}

/// Goal: a call whose caller left runs to its end, holds off others meanwhile, and its repeat succeeds.
/// Method: stall the first effect of each call, drop the caller, ask again, let go, ask again.
#[tokio::test(start_paused = true)]
async fn a_call_outlives_its_caller() {
    const CALLS: [Step; 6] =
        [Step::Cut, Step::CutGroup, Step::Restore, Step::Clone, Step::DeleteSnapshot, Step::DeleteGroup];
    for (position, call) in CALLS.into_iter().enumerate() {
        let world = World::new().await;
        world.in_use("v", "data").await;
        world.create("w").await.unwrap();
        for earlier in &CALLS[..position] {
            perform(&world, *earlier).await.unwrap();
        }
        let world = world.restart_with(Fault::Stall(1)).await;
        let left = tokio::time::timeout(Duration::from_secs(1), perform(&world, call)).await;
        assert!(left.is_err(), "{call:?} waits for its effect");
        assert_eq!(code(&perform(&world, call).await), Code::Aborted, "{call:?} is in flight");
        world.faults.resume.notify_one();
        let mut answer = perform(&world, call).await;
        for _ in 0..100 {
            if code(&answer) != Code::Aborted {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            answer = perform(&world, call).await;
        }
        answer.unwrap_or_else(|status| panic!("{call:?} repeated: {status}"));
        check(&world, "repeated").await;
    }
}
