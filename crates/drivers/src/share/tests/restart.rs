//! A driver that starts on a machine where another has worked before.

use std::path::Path;

use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::world::{World, code, config, data, target};
use crate::share::run;

#[tokio::test]
async fn mounts_are_adopted() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    world.publish_inline("i", "b").await.unwrap();
    let mounts = world.machine.mounts();

    let world = world.restart().await;
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition);
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    world.publish_inline("i", "b").await.unwrap();
    assert_eq!(world.machine.mounts(), mounts);

    let world = world.restart().await;
    world.unpublish("v", "a").await.unwrap();
    world.unpublish("i", "b").await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("after a restart").await;
}

/// A reboot undoes mounts; directories at the targets stay.
#[tokio::test]
async fn after_a_reboot_the_files_are_published_again() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    world.write(&target("a").join("file")).await.unwrap();
    world.machine.reboot();
    let world = world.restart().await;
    assert!(!world.exists(&target("a").join("file")).await);
    world.publish("v", "a").await.unwrap();
    assert_eq!(world.host.disk.read(&target("a").join("file")).await.unwrap(), b"data");
}

/// Goal: the next start removes what a deletion left, without being asked.
#[tokio::test(start_paused = true)]
async fn deletions_are_finished() {
    let world = World::new().await;
    for name in ["v", "w"] {
        world.create(name).await.unwrap();
        world.write(&data(name).join("file")).await.unwrap();
        world.machine.fail_next("remove_tree", 5);
        world.delete(name).await.unwrap_err();
    }
    world.host.disk.create_dir_all(&data("v").join("sub"), 0o755).await.unwrap();
    world.host.kernel.bind(Path::new("/tmp"), &data("v").join("sub"), false).await.unwrap();

    let world = world.restart().await;
    for _ in 0..100 {
        if !world.exists(&data("w")).await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(!world.exists(&data("w")).await, "finished at the start");
    assert!(world.exists(&data("v").join("file")).await, "refused, and no reason not to serve");
    assert_eq!(code(&world.delete("v").await), Code::FailedPrecondition);
    world.host.kernel.unmount(&data("v").join("sub")).await.unwrap();
    world.delete("v").await.unwrap();
    world.assert_clean("deleted").await;
}

#[tokio::test]
async fn a_record_from_the_future_keeps_only_its_own_volume_from_being_used() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let path = data("v").with_file_name("record.json");
    let text = String::from_utf8(world.host.disk.read(&path).await.unwrap()).unwrap();
    let newer = text.replace("\"version\": 1", "\"version\": 2");
    assert_ne!(text, newer);
    world.host.disk.write_atomic(&path, newer.as_bytes(), 0o600).await.unwrap();
    let world = world.restart().await;
    let refused = world.create("v").await.unwrap_err();
    assert!(refused.message().contains("layout 2"), "{refused}");
    world.create("w").await.expect("another volume");
}

/// The mount table knows no links.
#[tokio::test]
async fn a_pool_behind_a_link() {
    let world = World::new().await;
    world.host.disk.create_dir_all(Path::new("/var/lib/real"), 0o755).await.unwrap();
    world.host.disk.symlink(Path::new("real"), Path::new("/var/lib/linked")).await.unwrap();
    let config = crate::share::ShareConfig { pool: "/var/lib/linked".into(), ..config() };
    let driver = super::super::driver::Driver::open(world.host.clone(), config).await.unwrap();
    let id = crate::id::VolumeId::for_name("v");
    assert_eq!(driver.data(&id), Path::new("/var/lib/real/shares/v/data"));
}

#[tokio::test]
async fn stopping_is_an_orderly_end() {
    let world = World::new().await;
    let stop = CancellationToken::new();
    let socket = Path::new("/var/lib/second.sock");
    let second = crate::share::ShareConfig { pool: "/var/lib/second".into(), ..config() };
    let serving = run(world.host.clone(), second, socket, stop.clone());
    let (ended, ()) = tokio::join!(serving, async { stop.cancel() });
    ended.expect("stopped as asked");
}

/// Goal: a pool has one driver at a time, and belongs to one installation for good.
#[tokio::test]
async fn a_pool_of_another_is_refused() {
    let world = World::new().await;
    let socket = Path::new("/var/lib/second.sock");
    let start = |installation: Option<&str>, pool: &str| {
        let config = crate::share::ShareConfig {
            pool: pool.into(),
            installation: installation.map(str::to_owned),
            ..config()
        };
        let stop = CancellationToken::new();
        stop.cancel();
        let host = world.host.clone();
        async move { run(host, config, socket, stop).await.map_err(|error| crate::error::chain(&error)) }
    };
    let refused = start(None, "/var/lib/pool").await.unwrap_err();
    assert!(refused.contains("is served by another process"), "{refused}");
    start(Some("first"), "/var/lib/own").await.unwrap();
    start(Some("first"), "/var/lib/own").await.unwrap();
    start(None, "/var/lib/own").await.unwrap();
    let refused = start(Some("second"), "/var/lib/own").await.unwrap_err();
    assert!(refused.contains("belongs to the installation `first`"), "{refused}");
}

/// Goal: a read-only pool that no version with locks has served says what is missing.
#[tokio::test]
async fn a_read_only_pool_without_a_lock_is_refused() {
    let world = World::new().await;
    let config = crate::share::ShareConfig { pool: "/var/lib/old".into(), ..config() };
    world.host.disk.create_dir_all(&config.pool, 0o700).await.unwrap();
    world.machine.set_read_only(true);
    let socket = Path::new("/var/lib/second.sock");
    let refused = run(world.host.clone(), config, socket, CancellationToken::new()).await.unwrap_err();
    let refused = crate::error::chain(&refused);
    for part in ["/var/lib/old", "read-only", "share.lock", "remount it writable"] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
}

/// Goal: a pod whose share has lost its record can end.
#[tokio::test]
async fn a_quarantined_share_can_be_unpublished() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.publish("v", "a").await.unwrap();
    let record = data("v").with_file_name("record.json");
    let text = String::from_utf8(world.host.disk.read(&record).await.unwrap()).unwrap();
    let newer = text.replace("\"version\": 1", "\"version\": 2");
    assert_ne!(text, newer);
    world.host.disk.write_atomic(&record, newer.as_bytes(), 0o600).await.unwrap();
    let world = world.restart().await;
    assert_eq!(code(&world.publish("v", "b").await), Code::Internal, "quarantined");
    world.unpublish("v", "a").await.unwrap();
    assert_eq!(world.machine.mounts(), []);
    assert!(!world.exists(&target("a")).await);
    assert_eq!(world.host.disk.read(&record).await.unwrap(), newer.as_bytes(), "untouched");
}
