//! Containers that cannot be started, waited for, ended or removed at the first try.

use std::time::Duration;

use bowline_api::{Meta, build};

use super::world::World;

/// The process has too many files open.
const EMFILE: i32 = 24;
const EBUSY: i32 = 16;

/// NODE-3: what cannot be waited for may run; another one beside it would write to the same volume.
#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_waited_for_is_not_taken_for_ended() {
    let world = World::with_claim(5).await;
    for _ in 0..3 {
        world.fake.fail_next("wait", EMFILE);
    }
    let always = build::pod("p").shell("sleep 9").restart_policy("Always").mount("data", "/data").build();
    let uid = world.pod(always).await.uid().to_owned();
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.running(), [format!("{uid}/main/0")]);
    let status = world.live_pod("p").status.unwrap().container_statuses.unwrap()[0].clone();
    assert_eq!((status.restart_count, status.ready), (0, true));
    world.fake.exit(&format!("{uid}/main/0"), 1);
    world.until("its end is seen all the same", |w| w.running() == [format!("{uid}/main/1")]).await;
}

#[tokio::test(start_paused = true)]
async fn signals_that_could_not_be_sent_are_sent_again() {
    for passing in [0, 1] {
        let world = World::with_claim(5).await;
        let pod = build::pod("p").shell("sleep 9").mount("data", "/data").grace_seconds(5).build();
        let pod = world.pod(pod).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        world.fake.only_killed_ends(&world.running()[0]);
        // The request to end, or the kill after its grace.
        world.fake.fail_later("signal", passing, EMFILE);
        world.delete(&pod, None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
        assert_eq!(world.events("Killing"), ["Stopping container main"]);
        world.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn starts_and_removals_are_tried_again() {
    let world = World::with_claim(5).await;
    world.fake.fail_next("start", EMFILE);
    world.fake.fail_next("remove", EBUSY);
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.running(), [format!("{}/main/0", pod.uid())], "the same attempt");
    assert_eq!(world.events("Failed").len(), 1);
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.assert_clean().await;
    assert!(world.fake.containers().is_empty());
}
