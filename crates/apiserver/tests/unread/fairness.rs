//! A user who floods the server, and others.

use super::client::PATIENCE;
use super::server::{CONFIGMAPS, Process};

/// Lists that are begun and not read hold their seats; more of them wait in line. Others are answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_floods_the_server_does_not_keep_others_waiting() {
    // 8 seats for users, 2 for each of them.
    let server = Process::start(16);
    let (joe, ann, admin) = (server.user(0), server.user(1), server.user(2));
    let unread = [joe.begin(CONFIGMAPS).await, joe.begin(CONFIGMAPS).await];
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(joe.send(CONFIGMAPS).await);
    }
    for other in [&ann, &admin] {
        let begun = std::time::Instant::now();
        assert!(other.get(&format!("{CONFIGMAPS}/c2000-0000")).await.starts_with("HTTP/1.1 200 "));
        // Under a line of 50 requests that each wait 15 s, it would take until PATIENCE.
        assert!(begun.elapsed() < PATIENCE / 12, "{:?}", begun.elapsed());
    }
    let refused = joe.get(&format!("{CONFIGMAPS}/c2000-0000")).await;
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("retry-after: 1"), "{refused}");
    assert!(body.contains("\"reason\":\"TooManyRequests\""), "{refused}");
    // Clients that are gone hold nothing.
    drop((unread, waiting));
    let path = format!("{CONFIGMAPS}/c2000-0000");
    let until = std::time::Instant::now() + PATIENCE;
    while !joe.get(&path).await.starts_with("HTTP/1.1 200 ") {
        assert!(std::time::Instant::now() < until, "seats of clients that are gone are not given back");
    }
}

/// Requests that are taken back at once give their seats back, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_resets_does_not_keep_others_waiting() {
    let server = Process::start(16);
    let (joe, ann) = (server.user(0), server.user(1));
    let mut sent = 0;
    for _ in 0..10 {
        sent += joe.http2().await.flood(CONFIGMAPS, 500).await;
    }
    assert!(sent >= 100, "{sent}");
    let path = format!("{CONFIGMAPS}/c2000-0000");
    let begun = std::time::Instant::now();
    assert!(ann.get(&path).await.starts_with("HTTP/1.1 200 "));
    assert!(begun.elapsed() < PATIENCE / 4, "{:?}", begun.elapsed());
    let until = std::time::Instant::now() + PATIENCE;
    while !joe.get(&path).await.starts_with("HTTP/1.1 200 ") {
        assert!(std::time::Instant::now() < until, "seats of requests that were taken back are gone");
    }
}
