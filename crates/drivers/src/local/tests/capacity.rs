//! What the pool may promise: GetCapacity and CreateVolume agree, whatever was promised before.

use std::time::Duration;

use bowline_host::disk::Space;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use super::world::{MIB, World, code, config, create, mount, mount_as};
use crate::doors::Fault;
use crate::local::LocalConfig;

fn limits(capacity: i64, over_provisioning: u32) -> LocalConfig {
    LocalConfig { capacity: Some(capacity.cast_unsigned()), over_provisioning, ..config() }
}

async fn create_sized(world: &World, name: &str, required_bytes: i64) -> Code {
    let mut request = create(name, mount());
    request.capacity_range = Some(csi::CapacityRange { required_bytes, limit_bytes: 0 });
    code(&world.controller().create_volume(request).await)
}

/// Available bytes, largest and smallest volume.
async fn capacity(world: &World, fs: &str) -> (i64, i64, i64) {
    let volume_capabilities = vec![mount_as(fs, Mode::SingleNodeWriter)];
    let request = csi::GetCapacityRequest { volume_capabilities, ..Default::default() };
    let answer = world.controller().get_capacity(request).await.unwrap().into_inner();
    let (largest, smallest) = (answer.maximum_volume_size.unwrap(), answer.minimum_volume_size.unwrap());
    (answer.available_capacity, largest, smallest)
}

#[tokio::test]
async fn promises_end_where_the_policy_ends_them() {
    let world = World::with(limits(100 * MIB, 2)).await;
    assert_eq!(capacity(&world, "ext4").await, (200 * MIB, 100 * MIB, MIB));
    assert_eq!(create_sized(&world, "large", 100 * MIB + 1).await, Code::OutOfRange, "no pool of this size");
    assert_eq!(create_sized(&world, "a", 100 * MIB).await, Code::Ok);
    assert_eq!(create_sized(&world, "b", 60 * MIB).await, Code::Ok);
    assert_eq!(capacity(&world, "ext4").await, (40 * MIB, 40 * MIB, MIB));
    assert_eq!(create_sized(&world, "c", 41 * MIB).await, Code::ResourceExhausted);
    assert_eq!(create_sized(&world, "c", 40 * MIB).await, Code::Ok);
    assert_eq!(capacity(&world, "ext4").await, (0, 0, MIB));
    assert_eq!(create_sized(&world, "d", 1).await, Code::ResourceExhausted);
    assert_eq!(create_sized(&world, "d", 0).await, Code::ResourceExhausted, "any size");
    assert_eq!(create_sized(&world, "a", 100 * MIB).await, Code::Ok, "a repeat needs no room");

    world.delete("b").await.unwrap();
    assert_eq!(capacity(&world, "ext4").await, (60 * MIB, 60 * MIB, MIB), "what is gone is free");
    let world = world.restart().await;
    assert_eq!(capacity(&world, "ext4").await, (60 * MIB, 60 * MIB, MIB), "a restart forgets nothing");
}

#[tokio::test]
async fn settings_of_the_policy() {
    let table = [
        ("never more than the pool", Some(100 * MIB), 1, (100 * MIB, 100 * MIB, MIB)),
        ("ten times", Some(100 * MIB), 10, (1000 * MIB, 100 * MIB, MIB)),
        ("no bound on the sum", Some(100 * MIB), 0, (100 * MIB, 100 * MIB, MIB)),
        ("all of the filesystem", None, 1, (1 << 40, 1 << 40, MIB)),
        ("more than the filesystem", Some(2 << 40), 1, (1 << 40, 1 << 40, MIB)),
        ("whole MiB", Some(100 * MIB + 7), 1, (100 * MIB + 7, 100 * MIB, MIB)),
        ("nothing", Some(0), 1, (0, 0, MIB)),
    ];
    for (name, bytes, over_provisioning, expected) in table {
        let capacity_of_pool = bytes.map(i64::cast_unsigned);
        let config = LocalConfig { capacity: capacity_of_pool, over_provisioning, ..config() };
        let world = World::with(config).await;
        assert_eq!(capacity(&world, "ext4").await, expected, "{name}");
    }
    let world = World::with(limits(100 * MIB, 0)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(create_sized(&world, name, 100 * MIB).await, Code::Ok, "no bound: {name}");
    }
    assert_eq!(create_sized(&world, "d", 101 * MIB).await, Code::OutOfRange, "could never be filled");
}

#[tokio::test]
async fn what_no_volume_of_a_kind_fits_into_is_no_capacity_for_it() {
    let world = World::with(limits(400 * MIB, 1)).await;
    assert_eq!(create_sized(&world, "a", 200 * MIB).await, Code::Ok);
    assert_eq!(capacity(&world, "xfs").await, (0, 0, 300 * MIB));
    assert_eq!(capacity(&world, "ext4").await, (200 * MIB, 200 * MIB, MIB));
    let mut request = create("x", mount_as("xfs", Mode::SingleNodeWriter));
    for capacity_range in [None, Some(csi::CapacityRange { required_bytes: 1, limit_bytes: 0 })] {
        request.capacity_range = capacity_range;
        let answer = world.controller().create_volume(request.clone()).await;
        assert_eq!(code(&answer), Code::ResourceExhausted, "{capacity_range:?}");
    }
}

#[tokio::test]
async fn who_asks_for_no_size_gets_what_there_is() {
    let world = World::with(limits(100 * MIB, 1)).await;
    let mut request = create("v", mount());
    request.capacity_range = None;
    let volume = world.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.capacity_bytes, 100 * MIB);
}

/// Goal: what one call is about to promise, no other call promises as well.
/// Method: hold the first call at its first effect, before anything is recorded.
/// Method: stop the first creation at each effect until its record counts, and ask for the same room.
#[tokio::test(start_paused = true)]
async fn the_last_room_goes_to_one() {
    const DIRECTORY_AND_RECORD: u64 = 2;
    for effect in 1..=DIRECTORY_AND_RECORD {
        let world = World::with(limits(100 * MIB, 1)).await;
        let world = world.restart_with(Fault::Stall(effect)).await;
        let second = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(
                capacity(&world, "ext4").await.0,
                49 * MIB,
                "effect {effect}: counted before it is recorded"
            );
            let refused = create_sized(&world, "b", 50 * MIB).await;
            world.faults.resume.notify_one();
            refused
        };
        let codes = tokio::join!(create_sized(&world, "a", 51 * MIB), second);
        assert_eq!(codes, (Code::Ok, Code::ResourceExhausted), "effect {effect}");
        assert_eq!(capacity(&world, "ext4").await.0, 49 * MIB, "counted once");
        world.delete("a").await.unwrap();
        assert_eq!(capacity(&world, "ext4").await.0, 100 * MIB, "nothing stays reserved");
    }
}

#[tokio::test]
async fn a_failed_creation_gives_its_room_back() {
    let world = World::with(limits(100 * MIB, 1)).await;
    for operation in ["create_dir_all", "write_atomic"] {
        world.machine.fail_next(operation, 5);
        assert_eq!(create_sized(&world, "v", 100 * MIB).await, Code::Internal, "{operation}");
        assert_eq!(capacity(&world, "ext4").await.0, 100 * MIB, "{operation}");
    }
    assert_eq!(create_sized(&world, "v", 100 * MIB).await, Code::Ok);
}

#[tokio::test]
async fn a_filesystem_that_shrank_has_no_room() {
    let world = World::with(LocalConfig { over_provisioning: 1, ..config() }).await;
    assert_eq!(create_sized(&world, "v", 1 << 40).await, Code::Ok);
    let space = Space { total: 1 << 30, available: 0, inodes_total: 0, inodes_available: 0 };
    world.machine.set_space(space);
    assert_eq!(capacity(&world, "ext4").await, (0, 0, MIB));
}
