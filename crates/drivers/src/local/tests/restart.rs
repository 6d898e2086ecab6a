//! A driver that starts on a machine where another has worked before.

use tonic::Code;

use super::world::{World, block, code, mount, staging, target};

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

#[tokio::test]
async fn a_record_from_the_future_stops_the_start() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let path = world.record_path("v");
    let text = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
    let newer = text.replace("\"version\": 2", "\"version\": 3");
    assert_ne!(text, newer);
    world.host.disk.write_atomic(&path, newer.as_bytes(), 0o600).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let socket = std::path::Path::new("/var/lib/second.sock");
    let error = crate::local::run(world.host.clone(), world.config.clone(), socket, stop).await.unwrap_err();
    let text = crate::error::chain(&error);
    assert!(text.contains("record.json") && text.contains("layout 3"), "{text}");
}

#[tokio::test]
async fn stopping_is_an_orderly_end() {
    let world = World::new().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let socket = std::path::Path::new("/var/lib/second.sock");
    let alone = crate::local::LocalConfig { others: Vec::new(), ..world.config.clone() };
    let serving = crate::local::run(world.host.clone(), alone, socket, stop.clone());
    let (ended, ()) = tokio::join!(serving, async { stop.cancel() });
    ended.expect("stopped as asked");
}
