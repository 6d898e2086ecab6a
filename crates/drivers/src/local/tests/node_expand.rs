//! NodeExpandVolume, and the growth of filesystems when they are staged.

use std::path::Path;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, World, block, mount, mount_as, mount_with, staging, target, text};

type Request = csi::NodeExpandVolumeRequest;

fn at(path: &Path) -> Request {
    Request { volume_id: "v".into(), volume_path: text(path.into()), ..Default::default() }
}

fn range(required_bytes: i64, limit_bytes: i64) -> Option<csi::CapacityRange> {
    Some(csi::CapacityRange { required_bytes, limit_bytes })
}

async fn ask(world: &World, request: Request) -> Result<i64, Code> {
    let answer = world.node().node_expand_volume(request).await;
    answer.map(|answer| answer.into_inner().capacity_bytes).map_err(|status| status.code())
}

async fn published(capability: csi::VolumeCapability) -> World {
    let world = World::new().await;
    world.staged("v", capability.clone()).await;
    world.publish("v", "a", capability).await.unwrap();
    world
}

/// Bytes of the filesystem on the only attached device.
async fn filesystem(world: &World, fs: &str) -> i64 {
    let (device, _) = world.machine.loops().remove(0);
    world.host.kernel.filesystem_size(&device, fs).await.unwrap().cast_signed()
}

#[tokio::test]
async fn answers() {
    let table: [(&str, fn(&mut Request), Result<i64, Code>); 20] = [
        ("to the maximum", |_| {}, Ok(128 * MIB)),
        ("the whole size", |r| r.capacity_range = range(128 * MIB, 0), Ok(128 * MIB)),
        ("exactly", |r| r.capacity_range = range(128 * MIB, 128 * MIB), Ok(128 * MIB)),
        ("at least less", |r| r.capacity_range = range(100 * MIB, 0), Ok(128 * MIB)),
        ("no bounds", |r| r.capacity_range = range(0, 0), Ok(128 * MIB)),
        ("a limit below the size", |r| r.capacity_range = range(MIB, 127 * MIB), Err(Code::OutOfRange)),
        ("more than there is", |r| r.capacity_range = range(129 * MIB, 0), Err(Code::OutOfRange)),
        ("negative", |r| r.capacity_range = range(-1, 0), Err(Code::InvalidArgument)),
        ("no volume", |r| r.volume_id.clear(), Err(Code::InvalidArgument)),
        ("no path", |r| r.volume_path.clear(), Err(Code::InvalidArgument)),
        ("unknown", |r| r.volume_id = "x".into(), Err(Code::NotFound)),
        ("impossible", |r| r.volume_id = "../v".into(), Err(Code::NotFound)),
        ("a relative path", |r| r.volume_path = "some/path".into(), Err(Code::NotFound)),
        ("another path", |r| r.volume_path = "/var/lib/pods".into(), Err(Code::NotFound)),
        ("a missing path", |r| r.volume_path = "/no/such/path".into(), Err(Code::NotFound)),
        ("the root", |r| r.volume_path = "/".into(), Err(Code::NotFound)),
        ("an odd path", |r| r.volume_path = "/a\0b".into(), Err(Code::NotFound)),
        ("where it is staged", |r| r.volume_path = text(staging("v")), Ok(128 * MIB)),
        ("for its filesystem", |r| r.volume_capability = Some(mount()), Ok(128 * MIB)),
        ("as block, which it is not", |r| r.volume_capability = Some(block()), Err(Code::InvalidArgument)),
    ];
    for (name, change, expected) in table {
        let world = published(mount()).await;
        world.expand("v", 128 * MIB).await.unwrap();
        let mut request = at(&target("a"));
        change(&mut request);
        assert_eq!(ask(&world, request.clone()).await, expected, "{name}");
        assert_eq!(ask(&world, request).await, expected, "{name}, repeated");
        let size = expected.unwrap_or(64 * MIB);
        assert_eq!(filesystem(&world, "ext4").await, size, "{name}");
    }
}

#[tokio::test]
async fn a_volume_that_shows_nowhere() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    assert_eq!(ask(&world, at(&staging("v"))).await, Err(Code::NotFound));
}

#[tokio::test]
async fn every_path_of_a_block_volume() {
    let world = published(block()).await;
    world.expand("v", 128 * MIB).await.unwrap();
    let (device, _) = world.machine.loops().remove(0);
    let link = Path::new("/var/lib/link");
    world.host.disk.symlink(&device, link).await.unwrap();
    for path in [&device, &target("a"), &staging("v"), &link.to_path_buf()] {
        assert_eq!(ask(&world, at(path)).await, Ok(128 * MIB), "{}", path.display());
    }
    assert_eq!(ask(&world, at(Path::new("/dev/loop9"))).await, Err(Code::NotFound));
}

/// After a reboot the record says where it was, and the path leads into another filesystem.
#[tokio::test]
async fn the_mount_table_is_believed() {
    for capability in [mount(), block()] {
        let world = published(capability).await;
        world.machine.reboot();
        let world = world.restart().await;
        for path in [staging("v"), target("a")] {
            assert_eq!(ask(&world, at(&path)).await, Err(Code::NotFound), "{}", path.display());
        }
    }
}

/// The path of the caller may lead through links; the mount table never does.
#[tokio::test]
async fn a_path_through_a_link() {
    let world = published(mount()).await;
    world.expand("v", 128 * MIB).await.unwrap();
    world.host.disk.symlink(Path::new("/var/lib/pods"), Path::new("/var/lib/linked")).await.unwrap();
    assert_eq!(ask(&world, at(Path::new("/var/lib/linked/a"))).await, Ok(128 * MIB));
    assert_eq!(filesystem(&world, "ext4").await, 128 * MIB);
}

/// The kernel lets only some grow a mounted ext4. Asking again would not help; staging anew does.
#[tokio::test]
async fn who_may_not_grow_a_mounted_filesystem_is_told_what_to_do() {
    let world = published(mount()).await;
    world.expand("v", 128 * MIB).await.unwrap();
    world.machine.fail_next("grow_filesystem", 1);
    let refused = world.node().node_expand_volume(at(&target("a"))).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_RESOURCE") && refused.message().contains("restart the pod"));

    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    world.stage("v", mount()).await.unwrap();
    assert_eq!(filesystem(&world, "ext4").await, 128 * MIB, "grown before it was mounted");
    assert_eq!(ask(&world, at(&staging("v"))).await, Ok(128 * MIB), "nothing left to do");
}

#[tokio::test]
async fn a_read_only_target_grows_through_its_staging() {
    let world = World::new().await;
    world.staged("v", mount_as("xfs", Mode::SingleNodeMultiWriter)).await;
    let mut request = super::world::publish("v", "a", mount_as("xfs", Mode::SingleNodeMultiWriter));
    request.readonly = true;
    world.node().node_publish_volume(request).await.unwrap();
    world.expand("v", 400 * MIB).await.unwrap();
    assert_eq!(ask(&world, at(&target("a"))).await, Ok(400 * MIB));
    assert_eq!(filesystem(&world, "xfs").await, 400 * MIB);
}

#[tokio::test]
async fn what_is_mounted_read_only_stays_as_it_is() {
    let world = published(mount()).await;
    world.unpublish("v", "a").await.unwrap();
    world.unstage("v").await.unwrap();
    world.detach("v").await.unwrap();
    world.expand("v", 128 * MIB).await.unwrap();
    world.attach("v", mount_with(&["ro"])).await.unwrap();
    world.stage("v", mount_with(&["ro"])).await.unwrap();
    assert_eq!(filesystem(&world, "ext4").await, 64 * MIB);
    assert_eq!(ask(&world, at(&staging("v"))).await, Err(Code::FailedPrecondition));
}

#[tokio::test]
async fn staging_grows_what_grew_while_nobody_used_it() {
    for fs in ["ext4", "xfs"] {
        let world = World::new().await;
        let capability = || mount_as(fs, Mode::SingleNodeWriter);
        world.staged("v", capability()).await;
        world.unstage("v").await.unwrap();
        world.expand("v", 400 * MIB).await.unwrap();
        world.stage("v", capability()).await.unwrap();
        assert_eq!(filesystem(&world, fs).await, 400 * MIB, "{fs}");
    }
}

/// A crash between the mount and the growth leaves what looks staged.
#[tokio::test]
async fn staging_again_grows_what_is_mounted() {
    let capability = || mount_as("xfs", Mode::SingleNodeWriter);
    let world = World::new().await;
    world.staged("v", capability()).await;
    world.expand("v", 400 * MIB).await.unwrap();
    world.stage("v", capability()).await.unwrap();
    assert_eq!(filesystem(&world, "xfs").await, 400 * MIB);
    world.machine.fail_next("grow_filesystem", 5);
    world.expand("v", 500 * MIB).await.unwrap();
    assert_eq!(super::world::code(&world.stage("v", capability()).await), Code::Internal);
    assert_eq!(world.machine.mounts().len(), 1, "a workload may be using it");
    world.stage("v", capability()).await.unwrap();
    assert_eq!(filesystem(&world, "xfs").await, 500 * MIB);
}

/// A caller told of a failed staging forgets the volume, so nothing may be left of it.
#[tokio::test]
async fn a_staging_that_cannot_grow_leaves_nothing() {
    for fs in ["ext4", "xfs"] {
        let capability = || mount_as(fs, Mode::SingleNodeWriter);
        let world = World::new().await;
        world.staged("v", capability()).await;
        world.unstage("v").await.unwrap();
        world.expand("v", 400 * MIB).await.unwrap();
        world.machine.fail_next("grow_filesystem", 5);
        assert_eq!(super::world::code(&world.stage("v", capability()).await), Code::Internal, "{fs}");
        assert_eq!(world.machine.mounts(), [], "{fs}");
        assert_eq!(world.machine.loops(), [], "{fs}");
        world.stage("v", capability()).await.unwrap();
        assert_eq!(filesystem(&world, fs).await, 400 * MIB, "{fs}");
    }
}
