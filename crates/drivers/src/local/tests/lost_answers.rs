//! A caller that goes away half-way, and comes back.

use std::time::Duration;

use tonic::Code;

use super::doors::Fault;
use super::world::{Answer, World, code, mount};

/// Every call of a journey that changes something, in order.
#[derive(Debug, Clone, Copy)]
enum Call {
    Create,
    Attach,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Detach,
    Delete,
}

const JOURNEY: [Call; 8] = [
    Call::Create,
    Call::Attach,
    Call::Stage,
    Call::Publish,
    Call::Unpublish,
    Call::Unstage,
    Call::Detach,
    Call::Delete,
];

async fn perform(world: &World, call: Call) -> Answer {
    match call {
        Call::Create => world.create("v").await,
        Call::Attach => world.attach("v", mount()).await,
        Call::Stage => world.stage("v", mount()).await,
        Call::Publish => world.publish("v", "a", mount()).await,
        Call::Unpublish => world.unpublish("v", "a").await,
        Call::Unstage => world.unstage("v").await,
        Call::Detach => world.detach("v").await,
        Call::Delete => world.delete("v").await,
    }
}

/// Goal: a call whose caller left runs to its end, holds off others meanwhile, and its repeat succeeds.
/// Method: stall the first effect of each call, drop the caller, ask again, let go, ask again.
#[tokio::test(start_paused = true)]
async fn a_call_outlives_its_caller() {
    for (position, call) in JOURNEY.into_iter().enumerate() {
        let world = World::new().await;
        for earlier in &JOURNEY[..position] {
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
        for later in &JOURNEY[position + 1..] {
            perform(&world, *later).await.unwrap();
        }
        world.assert_clean("end of the journey").await;
    }
}
