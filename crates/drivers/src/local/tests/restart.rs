//! A driver that starts on a machine where another has worked before.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::world::{World, block, code, mount, staging, target};
use crate::RunError;
use crate::local::{LocalConfig, run};

#[tokio::test]
async fn mounts_and_devices_are_adopted() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.staged("b", block()).await;
    world.publish("b", "c", block()).await.unwrap();
    let (mounts, loops) = (world.machine.mounts(), world.machine.loops());

    let world = world.restart().await;
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition);
    world.stage("v", mount()).await.unwrap();
    world.publish("v", "a", mount()).await.unwrap();
    world.stage("b", block()).await.unwrap();
    world.publish("b", "c", block()).await.unwrap();
    assert_eq!((world.machine.mounts(), world.machine.loops()), (mounts, loops));

    for (id, name) in [("v", "a"), ("b", "c")] {
        world.unpublish(id, name).await.unwrap();
        world.unstage(id).await.unwrap();
        world.detach(id).await.unwrap();
        world.delete(id).await.unwrap();
    }
    world.assert_clean("after a restart").await;
}

/// A reboot undoes mounts and leaves records that say "staged".
#[tokio::test]
async fn after_a_reboot_the_volume_is_staged_again_with_its_data() {
    let world = World::new().await;
    world.staged("v", mount()).await;
    world.publish("v", "a", mount()).await.unwrap();
    world.host.disk.write_atomic(&target("a").join("file"), b"data", 0o600).await.unwrap();
    world.machine.reboot();

    let world = world.restart().await;
    assert_eq!(code(&world.publish("v", "a", mount()).await), Code::FailedPrecondition, "not staged");
    world.stage("v", mount()).await.unwrap();
    world.publish("v", "a", mount()).await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
    assert!(world.exists(&staging("v")).await);
}

/// Two processes would each trust what it remembers of records that the other changes.
#[tokio::test]
async fn a_second_process_on_the_pool_is_refused() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let second = run_second(&world, world.config.pool.clone(), CancellationToken::new());
    let text = crate::error::chain(&second.await.unwrap_err());
    assert!(text.contains("`/var/lib/pool` is served by another process") && text.contains("stop"), "{text}");
    world.delete("v").await.expect("the first one goes on");
}

#[tokio::test]
async fn stopping_is_an_orderly_end_that_gives_the_pool_back() {
    let world = World::new().await;
    for _ in 0..2 {
        let stop = CancellationToken::new();
        let serving = run_second(&world, "/var/lib/second".into(), stop.clone());
        let (ended, ()) = tokio::join!(serving, async { stop.cancel() });
        ended.expect("stopped as asked");
    }
}

async fn run_second(world: &World, pool: PathBuf, stop: CancellationToken) -> Result<(), RunError> {
    let alone = LocalConfig { pool, others: Vec::new(), ..world.config.clone() };
    run(world.host.clone(), alone, Path::new("/var/lib/second.sock"), stop).await
}
