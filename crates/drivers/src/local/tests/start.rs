//! A start that dies half-way: the next one goes on where it stood.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::world::{World, block, mount, target};
use crate::doors::{Fault, Faults, faulty};
use crate::error::chain;
use crate::local::{LocalConfig, run};

const SOCKET: &str = "/var/lib/csi.sock";

/// A machine with everything on it that a start puts in order; its process is dead.
async fn disorder() -> World {
    let world = World::new().await;
    let disk = world.host.disk.clone();
    world.staged("lost", mount()).await;
    world.publish("lost", "a", mount()).await.unwrap();
    disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    world.unpublish("lost", "a").await.unwrap();
    world.unstage("lost").await.unwrap();
    disk.remove_file(&world.record_path("lost")).await.unwrap();

    world.create("deleting").await.unwrap();
    world.machine.fail_next("remove_file", 5);
    world.delete("deleting").await.unwrap_err();

    world.machine.fail_next("create_sparse", 5);
    world.create("creating").await.unwrap_err();
    disk.create_file(&world.image("creating").with_file_name(".bowline-new-disk.img")).await.unwrap();

    world.staged("gone", block()).await;
    disk.remove_file(&world.image("gone")).await.unwrap();
    disk.create_dir_all(&world.config.pool.join("volumes/empty"), 0o700).await.unwrap();
    world.stop().await;
    world
}

/// Starts a process with a fault. Returns whether it died before it served.
async fn dies(world: &World, fault: Fault) -> bool {
    let faults = Faults::new(fault);
    faults.arm();
    let (host, config) = (faulty(&world.host, &faults), world.config.clone());
    let mut server =
        tokio::spawn(async move { run(host, config, Path::new(SOCKET), CancellationToken::new()).await });
    let serves = async {
        while world.host.net.connect(Path::new(SOCKET)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let died = tokio::select! {
        biased;
        () = faults.died.notified() => true,
        // Some failures are reasons not to start.
        _ = &mut server => return false,
        () = serves => false,
    };
    server.abort();
    let _ = server.await;
    died
}

async fn assert_in_order(world: &World, why: &str) {
    world.attach("lost", mount()).await.unwrap();
    world.stage("lost", mount()).await.unwrap();
    world.publish("lost", "a", mount()).await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data", "{why}");
    world.unpublish("lost", "a").await.unwrap();
    world.unstage("lost").await.unwrap();
    assert_eq!(world.machine.loops(), [], "{why}");
    for id in ["lost", "gone"] {
        world.detach(id).await.unwrap();
    }
    for id in ["lost", "gone", "creating"] {
        world.delete(id).await.unwrap();
    }
    world.assert_clean(why).await;
}

/// Goal: wherever a start dies, the next one has everything in order.
/// Method: let it die before or after each of its effects in turn, until one passes untouched.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_effect_of_a_start() {
    for kind in [Fault::DieBefore, Fault::DieAfter] {
        let mut number = 1;
        loop {
            let world = disorder().await;
            let died = dies(&world, kind(number)).await;
            let world = world.restart().await;
            assert_in_order(&world, &format!("{:?}", kind(number))).await;
            if !died {
                break;
            }
            number += 1;
        }
        assert!(number > 12, "lock, label, record, image, directories and device were hit, {number}");
    }
}

/// A start whose effects fail goes on without them; the next one makes up for it.
#[tokio::test(start_paused = true)]
async fn a_failure_of_any_effect_of_a_start() {
    for number in 1..20 {
        let world = disorder().await;
        dies(&world, Fault::Fail(number)).await;
        let world = world.restart().await;
        assert_in_order(&world, &format!("{number}")).await;
    }
}

/// Goal: a pool has one driver at a time, and belongs to one installation for good.
#[tokio::test]
async fn a_pool_of_another_is_refused() {
    let world = World::new().await;
    let start = |installation: Option<&str>, pool: &str| {
        let installation = installation.map(str::to_owned);
        let others = Vec::new();
        let config = LocalConfig { pool: pool.into(), installation, others, ..world.config.clone() };
        let stop = CancellationToken::new();
        stop.cancel();
        let host = world.host.clone();
        async move {
            run(host, config, Path::new("/var/lib/second.sock"), stop).await.map_err(|error| chain(&error))
        }
    };
    let refused = start(None, "/var/lib/pool").await.unwrap_err();
    assert!(refused.contains("is served by another process"), "{refused}");
    start(Some("first"), "/var/lib/own").await.unwrap();
    start(Some("first"), "/var/lib/own").await.unwrap();
    start(None, "/var/lib/own").await.unwrap();
    let before = world.machine.files();
    let refused = start(Some("second"), "/var/lib/own").await.unwrap_err();
    assert!(refused.contains("belongs to the installation `first`"), "{refused}");
    assert_eq!(world.machine.files(), before, "nothing was touched");
}
