//! ControllerExpandVolume: sizes, codes, what the node is left to do.

use std::time::Duration;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, World, block, code, config, create, mount, mount_as};
use crate::doors::Fault;
use crate::local::LocalConfig;

type Request = csi::ControllerExpandVolumeRequest;

fn range(required_bytes: i64, limit_bytes: i64) -> Option<csi::CapacityRange> {
    Some(csi::CapacityRange { required_bytes, limit_bytes })
}

fn expand(id: &str, required_bytes: i64) -> Request {
    Request { volume_id: id.into(), capacity_range: range(required_bytes, 0), ..Default::default() }
}

async fn ask(world: &World, request: Request) -> Result<(i64, bool), Code> {
    let answer = world.controller().controller_expand_volume(request).await;
    let answer = answer.map(|answer| answer.into_inner());
    answer.map(|a| (a.capacity_bytes, a.node_expansion_required)).map_err(|status| status.code())
}

#[tokio::test]
async fn answers() {
    let table: [(&str, fn(&mut Request), Result<(i64, bool), Code>); 19] = [
        ("as usual", |_| {}, Ok((128 * MIB, true))),
        ("no volume", |r| r.volume_id.clear(), Err(Code::InvalidArgument)),
        ("no range", |r| r.capacity_range = None, Err(Code::InvalidArgument)),
        ("neither bound", |r| r.capacity_range = range(0, 0), Err(Code::InvalidArgument)),
        ("negative", |r| r.capacity_range = range(-1, 0), Err(Code::InvalidArgument)),
        ("reversed", |r| r.capacity_range = range(2, 1), Err(Code::InvalidArgument)),
        ("unknown", |r| r.volume_id = "x".into(), Err(Code::NotFound)),
        ("impossible", |r| r.volume_id = "../v".into(), Err(Code::NotFound)),
        ("already large enough", |r| r.capacity_range = range(MIB, 0), Ok((64 * MIB, true))),
        ("exactly as it is", |r| r.capacity_range = range(64 * MIB, 64 * MIB), Ok((64 * MIB, true))),
        ("rounded up", |r| r.capacity_range = range(64 * MIB + 1, 65 * MIB), Ok((65 * MIB, true))),
        (
            "rounding above the limit",
            |r| r.capacity_range = range(64 * MIB + 1, 64 * MIB + 2),
            Err(Code::OutOfRange),
        ),
        ("a limit below", |r| r.capacity_range = range(MIB, 63 * MIB), Err(Code::OutOfRange)),
        ("only a limit", |r| r.capacity_range = range(0, 90 * MIB), Ok((64 * MIB, true))),
        ("larger than the pool", |r| r.capacity_range = range(2 << 40, 0), Err(Code::OutOfRange)),
        ("for its filesystem", |r| r.volume_capability = Some(mount()), Ok((128 * MIB, true))),
        ("as block, which it is not", |r| r.volume_capability = Some(block()), Err(Code::InvalidArgument)),
        (
            "for a filesystem it has not",
            |r| r.volume_capability = Some(mount_as("xfs", Mode::SingleNodeWriter)),
            Err(Code::InvalidArgument),
        ),
        (
            "half a capability",
            |r| r.volume_capability = Some(csi::VolumeCapability::default()),
            Err(Code::InvalidArgument),
        ),
    ];
    for (name, change, expected) in table {
        let world = World::new().await;
        world.create("v").await.unwrap();
        let mut request = expand("v", 128 * MIB);
        change(&mut request);
        assert_eq!(ask(&world, request.clone()).await, expected, "{name}");
        assert_eq!(ask(&world, request).await, expected, "{name}, repeated");
        let size = expected.map_or(64 * MIB, |(size, _)| size);
        assert_eq!(world.host.disk.length(&world.image("v")).await.unwrap(), size.cast_unsigned(), "{name}");
    }
}

#[tokio::test]
async fn the_use_decides_whether_the_node_has_a_part() {
    let both = || vec![mount(), block()];
    let table = [
        ("block", vec![block()], Some(block()), false),
        ("block, unsaid", vec![block()], None, false),
        ("filesystem", vec![mount()], Some(mount()), true),
        ("filesystem, unsaid", vec![mount()], None, true),
        ("both, used as block", both(), Some(block()), false),
        ("both, used as filesystem", both(), Some(mount()), true),
        ("both, unsaid", both(), None, true),
    ];
    for (name, volume_capabilities, volume_capability, expected) in table {
        let world = World::new().await;
        let request = csi::CreateVolumeRequest { volume_capabilities, ..create("v", mount()) };
        world.controller().create_volume(request).await.unwrap();
        let request = Request { volume_capability, ..expand("v", 128 * MIB) };
        assert_eq!(ask(&world, request).await, Ok((128 * MIB, expected)), "{name}");
    }
}

#[tokio::test]
async fn the_new_size_is_everywhere() {
    let world = World::new().await;
    world.staged("v", block()).await;
    let (device, _) = world.machine.loops().remove(0);
    assert_eq!(ask(&world, expand("v", 100 * MIB)).await, Ok((100 * MIB, false)));
    let size = || async { world.host.kernel.device_size(&device).await.unwrap() };
    assert_eq!(size().await, 100 << 20, "the device of a block user grows at once");

    let world = world.restart().await;
    let request = csi::ControllerGetVolumeRequest { volume_id: "v".into() };
    let volume = world.controller().controller_get_volume(request).await.unwrap().into_inner().volume;
    assert_eq!(volume.unwrap().capacity_bytes, 100 * MIB);
    let mut repeated = create("v", block());
    repeated.capacity_range = range(100 * MIB, 0);
    world.controller().create_volume(repeated).await.expect("the volume is that large now");
}

/// Want of room is no state that passes by itself: the caller shall ask for less, not again.
#[tokio::test(start_paused = true)]
async fn growth_is_promised_like_anything_else() {
    let limits = LocalConfig { capacity: Some(200 << 20), over_provisioning: 1, ..config() };
    let world = World::with(limits).await;
    world.create("a").await.unwrap();
    world.create("b").await.unwrap();
    assert_eq!(ask(&world, expand("a", 137 * MIB)).await, Err(Code::OutOfRange));

    let world = world.restart_with(Fault::Stall(1)).await;
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let refused = ask(&world, expand("b", 130 * MIB)).await;
        world.faults.resume.notify_one();
        refused
    };
    let answers = tokio::join!(ask(&world, expand("a", 130 * MIB)), second);
    assert_eq!(answers, (Ok((130 * MIB, true)), Err(Code::OutOfRange)), "the last room goes to one");
    assert_eq!(ask(&world, expand("b", 70 * MIB)).await, Ok((70 * MIB, true)), "all that is left");
    assert_eq!(ask(&world, expand("b", 71 * MIB)).await, Err(Code::OutOfRange));
    assert_eq!(ask(&world, expand("b", 70 * MIB)).await, Ok((70 * MIB, true)), "a repeat needs no room");
}

#[tokio::test]
async fn what_lost_bytes_does_not_grow() {
    let world = World::new().await;
    for (id, bytes) in [("short", Some(b"cut".as_slice())), ("gone", None)] {
        world.create(id).await.unwrap();
        let image = world.image(id);
        world.host.disk.remove_file(&image).await.unwrap();
        if let Some(bytes) = bytes {
            world.host.disk.write_atomic(&image, bytes, 0o600).await.unwrap();
        }
        assert_eq!(ask(&world, expand(id, 128 * MIB)).await, Err(Code::DataLoss), "{id}");
        assert_eq!(world.exists(&image).await, bytes.is_some(), "{id}: nothing is made");
    }
}

#[tokio::test]
async fn a_full_disk_is_an_exhausted_resource() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    world.machine.fail_next("create_sparse", 28);
    assert_eq!(ask(&world, expand("v", 128 * MIB)).await, Err(Code::ResourceExhausted));
    assert_eq!(ask(&world, expand("v", 128 * MIB)).await, Ok((128 * MIB, true)), "room again");
}

/// A device that could not be told is told by the repeated call, although the record is right by then.
#[tokio::test]
async fn a_repeat_finishes_the_device() {
    let world = World::new().await;
    world.staged("v", block()).await;
    let (device, _) = world.machine.loops().remove(0);
    world.machine.fail_next("loop_refresh", 5);
    assert_eq!(ask(&world, expand("v", 128 * MIB)).await, Err(Code::Internal));
    assert_eq!(world.host.kernel.device_size(&device).await.unwrap(), 64 << 20);
    assert_eq!(ask(&world, expand("v", 128 * MIB)).await, Ok((128 * MIB, false)));
    assert_eq!(world.host.kernel.device_size(&device).await.unwrap(), 128 << 20);
}

/// The next process finishes it as well, without being asked.
#[tokio::test]
async fn a_start_finishes_the_device() {
    let world = World::new().await;
    world.staged("v", block()).await;
    let (device, _) = world.machine.loops().remove(0);
    world.machine.fail_next("loop_refresh", 5);
    assert_eq!(ask(&world, expand("v", 128 * MIB)).await, Err(Code::Internal));
    let world = world.restart().await;
    assert_eq!(world.host.kernel.device_size(&device).await.unwrap(), 128 << 20);
}

#[tokio::test]
async fn one_at_a_time() {
    let world = World::new().await;
    world.create("v").await.unwrap();
    let (one, other) = tokio::join!(ask(&world, expand("v", 70 * MIB)), ask(&world, expand("v", 80 * MIB)));
    assert!(one.is_ok() && other == Err(Code::Aborted), "{one:?} {other:?}");
    assert_eq!(code(&world.delete("v").await), Code::Ok);
}
