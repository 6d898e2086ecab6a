//! Wherever the driver dies or an effect fails, repeating the call completes the journey.

use tonic::Status;

use super::world::{Answer, World, block, create, mount, target};
use crate::doors::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Attach,
    Stage,
    Publish,
    Write,
    Read,
    Unpublish,
    Unstage,
    Detach,
    Delete,
}

/// Twice through staging, so that data meets every step that could destroy it.
const JOURNEY: [Step; 15] = [
    Step::Create,
    Step::Attach,
    Step::Stage,
    Step::Publish,
    Step::Write,
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
    Step::Attach,
    Step::Stage,
    Step::Publish,
    Step::Read,
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
];

/// A call that keeps failing is broken, not unlucky.
const TRIES_MAX: usize = 3;

async fn perform(world: &World, step: Step, is_block: bool) -> Answer {
    let capability = || if is_block { block() } else { mount() };
    let file = target("a").join("file");
    match step {
        Step::Create => world.controller().create_volume(create("v", capability())).await.map(drop),
        Step::Attach => world.attach("v", capability()).await,
        Step::Stage => world.stage("v", capability()).await,
        Step::Publish => world.publish("v", "a", capability()).await,
        Step::Unpublish => world.unpublish("v", "a").await,
        Step::Unstage => world.unstage("v").await,
        Step::Detach => world.detach("v").await,
        Step::Delete => world.delete("v").await,
        Step::Write | Step::Read if is_block => Ok(()),
        Step::Write => world.host.disk.write_atomic(&file, b"data", 0o600).await.map_err(io),
        Step::Read => {
            let bytes = world.host.disk.read(&file).await.map_err(io)?;
            assert_eq!(bytes, b"data");
            Ok(())
        }
    }
}

fn io(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

/// Runs the journey under a fault. Returns whether the fault struck.
async fn survives(fault: Fault, is_block: bool) -> bool {
    let mut world = World::with_fault(fault).await;
    let mut struck = false;
    for step in JOURNEY.into_iter().chain([Step::Delete]) {
        let mut tries = 0;
        loop {
            let died = tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = perform(&world, step, is_block) => Some(answer),
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
    // A failure that the caller is not told of is one, too.
    struck || world.faults.struck()
}

/// Goal: dying or failing at any effect leaves one volume, its data, and at the end nothing.
/// Method: strike at each effect in turn until a run passes untouched, so every effect was hit once.
async fn sweep(kind: fn(u64) -> Fault, is_block: bool) -> u64 {
    let mut number = 1;
    while survives(kind(number), is_block).await {
        number += 1;
    }
    number - 1
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_effect() {
    assert!(sweep(Fault::DieBefore, false).await >= 20);
    assert!(sweep(Fault::DieBefore, true).await >= 15);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect() {
    assert!(sweep(Fault::DieAfter, false).await >= 20);
    assert!(sweep(Fault::DieAfter, true).await >= 15);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_effect() {
    assert!(sweep(Fault::Fail, false).await >= 20);
    assert!(sweep(Fault::Fail, true).await >= 15);
}

/// mkfs that dies half-way leaves what looks like a filesystem; the next try begins again, whatever it dies of.
#[tokio::test(start_paused = true)]
async fn a_crash_while_beginning_again() {
    let mut number = 1;
    loop {
        let world = World::new().await;
        world.create("v").await.unwrap();
        world.attach("v", mount()).await.unwrap();
        world.machine.fail_next("mount", 5);
        world.stage("v", mount()).await.unwrap_err();
        let path = world.record_path("v");
        let text = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
        let half_done = text.replace("\"formatted\"", "\"formatting\"");
        assert_ne!(text, half_done);
        world.host.disk.write_atomic(&path, half_done.as_bytes(), 0o600).await.unwrap();

        let world = world.restart_with(Fault::DieBefore(number)).await;
        let died = tokio::select! {
            biased;
            () = world.faults.died.notified() => true,
            answer = world.stage("v", mount()) => { answer.unwrap(); false }
        };
        let world = world.restart().await;
        world.stage("v", mount()).await.unwrap();
        world.publish("v", "a", mount()).await.unwrap();
        if !died {
            break;
        }
        number += 1;
    }
    assert!(number > 7, "detach, remove, create, attach, mkfs, record and mount were hit, {number}");
}
