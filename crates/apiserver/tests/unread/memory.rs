//! What clients cost that watch and do not read.

use std::time::Duration;

use futures::StreamExt;

use super::client::PATIENCE;
use super::server::{CONFIGMAPS, Process};

/// More than the server takes while idle, in MiB.
const MORE_MAX: u64 = 100;
/// What may be left of it afterwards: pages that the allocator keeps.
const LEFT_MAX: u64 = 32;

/// The most that the server takes until it has taken no more for a while.
async fn settled(server: &Process) -> u64 {
    let (mut most, mut quiet) = (0, 0);
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = server.resident();
        quiet = if now > most { 0 } else { quiet + 1 };
        most = most.max(now);
    }
    most
}

async fn given_back(server: &Process, idle: u64) {
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut now = server.resident();
    while now > idle + LEFT_MAX {
        assert!(tokio::time::Instant::now() < until, "{now} MiB are left of a server that took {idle} MiB");
        tokio::time::sleep(Duration::from_millis(50)).await;
        now = server.resident();
    }
    eprintln!("afterwards {now} MiB");
}

const FORMS: [&str; 3] = ["", "&labelSelector=!a", "&labelSelector=!b"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_over_one_connection_cost_little() {
    let server = Process::start(400);
    let joe = server.user(0);
    drop(joe.get(CONFIGMAPS).await);
    let idle = settled(&server).await;
    let mut connection = joe.http2().await;
    let mut watches = Vec::new();
    for number in 0..300 {
        let form = FORMS[number % FORMS.len()];
        watches.push(connection.begin(&format!("{CONFIGMAPS}?watch=1{form}")).await);
    }
    let most = settled(&server).await;
    eprintln!("300 streams: {idle} MiB idle, {most} MiB at most");
    assert!(most < idle + MORE_MAX, "{idle} MiB idle, {most} MiB with 300 unread watches");
    drop((watches, connection));
    given_back(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_over_many_connections_cost_little() {
    bowline_host::real::raise_open_files().unwrap();
    let server = Process::start(400);
    // One user may not have so many.
    let users = [server.user(0), server.user(1)];
    drop(users[0].get(CONFIGMAPS).await);
    let idle = settled(&server).await;
    let opened = futures::stream::iter(0..1200).map(|number| {
        let user = &users[number % users.len()];
        async move { user.begin(&format!("{CONFIGMAPS}?watch=1{}", FORMS[number % FORMS.len()])).await }
    });
    let watches: Vec<_> = opened.buffer_unordered(16).collect().await;
    let most = settled(&server).await;
    eprintln!("1200 connections: {idle} MiB idle, {most} MiB at most");
    assert!(most < idle + MORE_MAX, "{idle} MiB idle, {most} MiB with 1200 unread watches");
    drop(watches);
    given_back(&server, idle).await;
}
