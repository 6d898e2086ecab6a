//! NodeGetVolumeStats.

use std::path::PathBuf;

use bowline_host::disk::Kind;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_usage::Unit;
use tonic::Code;

use super::world::{MIB, World, block, mount, staging, target, text};

type Request = csi::NodeGetVolumeStatsRequest;

fn at(path: &str) -> Request {
    Request { volume_id: "v".into(), volume_path: path.into(), ..Default::default() }
}

async fn ask(world: &World, request: Request) -> Result<Vec<csi::VolumeUsage>, Code> {
    let answer = world.node().node_get_volume_stats(request).await;
    answer.map(|answer| answer.into_inner().usage).map_err(|status| status.code())
}

async fn published(capability: csi::VolumeCapability) -> World {
    let world = World::new().await;
    world.staged("v", capability.clone()).await;
    world.publish("v", "a", capability).await.unwrap();
    world
}

#[tokio::test]
async fn codes() {
    let table: [(&str, fn(&mut Request), Code); 10] = [
        ("published", |_| {}, Code::Ok),
        ("staged", |r| r.volume_path = text(staging("v")), Code::Ok),
        ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
        ("no path", |r| r.volume_path.clear(), Code::InvalidArgument),
        ("unknown volume", |r| r.volume_id = "x".into(), Code::NotFound),
        ("impossible volume", |r| r.volume_id = "../v".into(), Code::NotFound),
        ("a relative path", |r| r.volume_path = "some/path".into(), Code::NotFound),
        ("a directory of the root", |r| r.volume_path = "/var/lib".into(), Code::NotFound),
        ("a directory in the volume", |r| r.volume_path.push_str("/inside"), Code::NotFound),
        ("missing", |r| r.volume_path = "/no/such/path".into(), Code::NotFound),
    ];
    for capability in [mount(), block()] {
        let world = published(capability).await;
        for (name, change, expected) in table {
            let mut request = at(&text(target("a")));
            change(&mut request);
            let code = ask(&world, request).await.err().unwrap_or(Code::Ok);
            assert_eq!(code, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_filesystem_counts_bytes_and_inodes() {
    let world = published(mount()).await;
    let usage = ask(&world, at(&text(target("a")))).await.unwrap();
    let space = world.host.disk.space(&target("a")).await.unwrap();
    let units: Vec<Unit> = usage.iter().map(csi::VolumeUsage::unit).collect();
    assert_eq!(units, [Unit::Bytes, Unit::Inodes]);
    assert_eq!((usage[0].total, usage[0].available), (64 * MIB, space.available.cast_signed()));
    assert_eq!(
        (usage[1].total, usage[1].available),
        (space.inodes_total.cast_signed(), space.inodes_available.cast_signed())
    );
    for usage in usage {
        assert_eq!(usage.used, usage.total - usage.available);
    }
}

#[tokio::test]
async fn a_device_has_a_size() {
    let world = published(block()).await;
    let expected = csi::VolumeUsage { total: 64 * MIB, unit: Unit::Bytes.into(), ..Default::default() };
    for path in [target("a"), staging("v")] {
        assert_eq!(ask(&world, at(&text(path))).await, Ok(vec![expected]));
    }
}

/// Without its mount the path belongs to the root filesystem, whose figures are nobody's business.
#[tokio::test]
async fn a_path_that_lost_its_mount_has_no_figures() {
    let world = published(mount()).await;
    world.machine.reboot();
    let world = world.restart().await;
    for path in [target("a"), staging("v")] {
        assert!(world.exists(&path).await);
        assert_eq!(ask(&world, at(&text(path))).await, Err(Code::NotFound));
    }
}

/// What somebody mounted over the volume is not the volume.
#[tokio::test]
async fn a_covered_path_has_no_figures() {
    for capability in [mount(), block()] {
        let world = published(capability).await;
        let covered = if world.host.disk.kind(&target("a")).await.unwrap() == Some(Kind::Dir) {
            PathBuf::from("/var/lib")
        } else {
            world.record_path("v")
        };
        world.host.kernel.bind(&covered, &target("a"), false).await.unwrap();
        assert_eq!(ask(&world, at(&text(target("a")))).await, Err(Code::NotFound));
        assert!(ask(&world, at(&text(staging("v")))).await.is_ok());
    }
}

/// Goal: a filesystem that never answers costs one thread and one late answer, and nobody else anything.
#[tokio::test(start_paused = true)]
async fn a_filesystem_that_hangs_holds_nobody_else() {
    let world = published(mount()).await;
    world.staged("w", mount()).await;
    world.faults.hang_at(Some(target("a")));
    let hanging = at(&text(target("a")));
    assert_eq!(ask(&world, hanging.clone()).await, Err(Code::DeadlineExceeded));
    assert_eq!(ask(&world, hanging.clone()).await, Err(Code::DeadlineExceeded), "answered at once");
    assert_eq!(world.faults.hanging(), 1, "asked once");

    let other = Request { volume_id: "w".into(), volume_path: text(staging("w")), ..Default::default() };
    assert!(ask(&world, other).await.is_ok());
    assert!(ask(&world, at(&text(staging("v")))).await.is_ok());
    world.unpublish("v", "a").await.expect("the volume itself is free");
    world.publish("v", "a", mount()).await.unwrap();

    world.faults.hang_at(None);
    for _ in 0..100 {
        if ask(&world, hanging.clone()).await.is_ok() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("answers again once the filesystem does");
}
