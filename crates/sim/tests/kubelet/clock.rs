//! B4: a wall clock that is wrong, or is set while something waits, changes timestamps and nothing else.

use std::time::Duration;

use bowline_api::{Meta, build};

use super::world::World;

const HOUR: i64 = 3600;

#[tokio::test(start_paused = true)]
async fn a_container_gets_its_grace_period_whatever_the_wall_clock_says() {
    for (before, after) in [(HOUR, HOUR), (-HOUR, -HOUR), (0, HOUR), (0, -HOUR)] {
        let world = World::with_claim(41).await;
        world.clock.set_ahead(before);
        let pod = build::pod("p").shell("sleep 9").mount("data", "/data").grace_seconds(20).build();
        let pod = world.pod(pod).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        world.fake.only_killed_ends(&world.running()[0]);
        world.delete(&pod, None).await;
        world.until("asked to end", |w| !w.events("Killing").is_empty()).await;
        world.clock.set_ahead(after);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(world.running().len(), 1, "killed early with a clock {before} and then {after} s ahead");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(world.running().len(), 0, "killed late with a clock {before} and then {after} s ahead");
        world.until("gone", |w| w.phase("p") == "gone").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_pause_before_a_restart_does_not_follow_the_wall_clock() {
    let world = World::with_claim(42).await;
    let always = build::pod("p").shell("false").restart_policy("Always").mount("data", "/data").build();
    let uid = world.pod(always).await.uid().to_owned();
    let runs = |number: u32| [format!("{uid}/main/{number}")];
    world.until("running", |w| w.running() == runs(0)).await;
    world.fake.exit(&runs(0)[0], 1);
    world.until("the first restart is free", |w| w.running() == runs(1)).await;
    world.fake.exit(&runs(1)[0], 1);
    world.clock.set_ahead(-HOUR);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.running(), [""; 0]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.running(), runs(2));
    world.clock.set_ahead(HOUR);
    world.fake.exit(&runs(2)[0], 1);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(world.running(), [""; 0], "the pause is twice as long");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_seconds_and_not_the_hands_of_the_clock() {
    let world = World::with_claim(43).await;
    let mut pod = build::pod("p").shell("sleep 9").restart_policy("Never").build();
    pod.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
    world.pod(pod).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.clock.set_ahead(HOUR);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.phase("p"), "Running");
    world.clock.set_ahead(-HOUR);
    world.until("failed", |w| w.phase("p") == "Failed").await;
}

/// A token ends by the clock of the API server; the node counts how long it was given for.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_wrong_clock_uses_tokens_and_renews_them() {
    for ahead in [HOUR * 24, -HOUR * 24] {
        let world = World::with_claim(44).await;
        world.clock.set_ahead(ahead);
        let mut journal = world.ports.journal.listen();
        let mut asked = || {
            let entries = std::iter::from_fn(|| journal.try_recv().ok());
            entries.filter(|entry| entry.action.contains("token")).count()
        };
        world.pod(build::pod("p").shell("sleep 9").build()).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(asked(), 1, "{ahead}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(asked(), 1, "{ahead}");
    }
}
