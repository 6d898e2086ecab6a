//! Goal: what is under way when the API server goes away for ten minutes, or when clocks are set by an hour, is finished
//! soon afterwards, once, and nothing is left.
//! Method: a whole cluster in virtual time without other faults; all processes are cut off at moments from a seed.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{ObjectKey, build, pod};
use bowline_sim::cluster::{CLASS_LATE, Cluster};
use bowline_sim::workload::delete_all;
use jiff::SignedDuration;
use tokio::time::Instant;

const OUTAGE: Duration = Duration::from_secs(600);
/// The longest pause of a watch is 30 seconds, and what it brings leads to calls.
const BACK: Duration = Duration::from_secs(60);
/// Unmounting, detaching and deleting follow each other, and a lease may have to run out first.
const SETTLES: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

async fn claim_and_pod(cluster: &Cluster, name: &str) {
    let person = cluster.person();
    person.create(&build::claim(name).class(CLASS_LATE).build()).await.expect("a claim");
    let mut pod = build::pod(name).shell("sleep 3600").mount(name, "/data").grace_seconds(1).build();
    pod.spec.as_mut().expect("a spec").automount_service_account_token = Some(false);
    person.create(&pod).await.expect("a pod");
}

fn runs(cluster: &Cluster, name: &str) -> bool {
    let mut oracle = cluster.shared.oracle();
    oracle.look();
    oracle.pods.get(&ObjectKey::new("default", name)).is_some_and(|found| pod::phase(found) == "Running")
}

fn left(cluster: &Cluster) -> Vec<String> {
    let mut oracle = cluster.shared.oracle();
    oracle.look();
    oracle.left(&Default::default())
}

/// Waits in virtual time; returns how long it took.
async fn within(cluster: &Cluster, bound: Duration, what: &str, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        let late = || {
            format!("{what} within {bound:?}: {:#?}\n{}", left(cluster), cluster.shared.trace().join("\n"))
        };
        assert!(begun.elapsed() < bound, "{}", late());
        tokio::time::sleep(LOOK).await;
    }
    begun.elapsed()
}

/// Processes that start again meanwhile are cut off, too.
async fn cut_off(cluster: &Cluster, lasts: Duration) {
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        cluster.processes().values().for_each(|one| one.life.cut_off(LOOK * 2));
        tokio::time::sleep(LOOK).await;
    }
}

async fn end(cluster: &Arc<Cluster>) {
    delete_all(cluster).await;
    within(cluster, SETTLES, "nothing is left", || left(cluster).is_empty()).await;
    cluster.end();
    let violations = std::mem::take(&mut cluster.shared.oracle().violations);
    assert_eq!(violations, Vec::<String>::new(), "{}", cluster.shared.trace().join("\n"));
}

/// `after` the creation of a pod everything is cut off; another is deleted meanwhile.
async fn outage(seed: u64, after: Duration) {
    let cluster = Cluster::start(seed, &[]).await;
    claim_and_pod(&cluster, "before").await;
    within(&cluster, BACK, "the first pod runs", || runs(&cluster, "before")).await;
    claim_and_pod(&cluster, "during").await;
    tokio::time::sleep(after).await;
    cut_off(&cluster, OUTAGE / 2).await;
    let key = ObjectKey::new("default", "before");
    let pod = cluster.shared.oracle().pods.get(&key).cloned().expect("the first pod");
    bowline_sim::cluster::delete(&cluster.person(), pod.as_ref(), None).await;
    cut_off(&cluster, OUTAGE / 2).await;
    within(&cluster, BACK, "the second pod runs", || runs(&cluster, "during")).await;
    end(&cluster).await;
}

#[test]
fn ten_minutes_without_an_api_server_are_made_up_for_within_one() {
    for seed in 1..=6 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(outage(seed, Duration::from_millis(seed * 240)));
    }
}

async fn clock_step(seed: u64, by: SignedDuration) {
    let cluster = Cluster::start(seed, &[]).await;
    claim_and_pod(&cluster, "before").await;
    within(&cluster, BACK, "the first pod runs", || runs(&cluster, "before")).await;
    claim_and_pod(&cluster, "during").await;
    tokio::time::sleep(Duration::from_millis(seed * 120)).await;
    cluster.set_clocks(by);
    within(&cluster, BACK, "the second pod runs", || runs(&cluster, "during")).await;
    cluster.set_clocks(by * -2);
    end(&cluster).await;
}

#[test]
fn clocks_set_by_an_hour_neither_delay_nor_repeat_anything() {
    for (seed, hours) in (1..=4).zip([1, -1].into_iter().cycle()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(clock_step(seed, SignedDuration::from_hours(hours)));
    }
}
