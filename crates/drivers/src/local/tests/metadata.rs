//! The SnapshotMetadata service.

use std::sync::Arc;

use bowline_host::fake::{self, FakeHost};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::BlockMetadataType;
use bowline_proto::csi::v1::controller_server::Controller;
use bowline_proto::csi::v1::snapshot_metadata_server::SnapshotMetadata;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

use super::world::{World, block, code, create};
use crate::id::SnapshotId;
use crate::local::controller::ControllerService;
use crate::local::driver::Driver;
use crate::local::metadata::MetadataService;

const SIZE: i64 = 64 << 20;
const KIB: i64 = 1 << 10;

type Block = (i64, i64);

/// Every message of a stream: its blocks.
type Messages = Result<Vec<Vec<Block>>, Status>;

fn blocks(kind: i32, capacity: i64, blocks: Vec<csi::BlockMetadata>) -> Vec<Block> {
    assert_eq!((kind, capacity), (BlockMetadataType::VariableLength.into(), SIZE));
    blocks.into_iter().map(|block| (block.byte_offset, block.size_bytes)).collect()
}

async fn allocated(world: &World, id: &str, starting_offset: i64, max_results: i32) -> Messages {
    let snapshot_id = id.into();
    let request =
        csi::GetMetadataAllocatedRequest { snapshot_id, starting_offset, max_results, ..Default::default() };
    let mut stream = world.metadata().get_metadata_allocated(request).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(m) = stream.message().await? {
        messages.push(blocks(m.block_metadata_type, m.volume_capacity_bytes, m.block_metadata));
    }
    Ok(messages)
}

async fn delta(world: &World, ids: (&str, &str), starting_offset: i64, max_results: i32) -> Messages {
    let request = csi::GetMetadataDeltaRequest {
        base_snapshot_id: ids.0.into(),
        target_snapshot_id: ids.1.into(),
        starting_offset,
        max_results,
        ..Default::default()
    };
    let mut stream = world.metadata().get_metadata_delta(request).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(m) = stream.message().await? {
        messages.push(blocks(m.block_metadata_type, m.volume_capacity_bytes, m.block_metadata));
    }
    Ok(messages)
}

/// Two snapshots of a device; the second has one block more at each of the given places.
async fn written(first: &[u64], second: &[u64]) -> World {
    let world = World::new().await;
    world.staged("v", block()).await;
    let device = world.machine.loops()[0].0.clone();
    for (name, places) in [("a", first), ("b", second)] {
        for place in places {
            world.machine.write_device(&device, *place, name.as_bytes()).unwrap();
        }
        world.snapshot(name, "v").await.unwrap();
    }
    world
}

#[tokio::test]
async fn where_data_is() {
    let world = written(&[0, 4096, 1 << 20, (SIZE - 1) as u64], &[]).await;
    let all = allocated(&world, "a", 0, 0).await.unwrap().concat();
    for written in [(0, 8 * KIB), (1 << 20, 4 * KIB), (SIZE - 4 * KIB, 4 * KIB)] {
        assert!(all.contains(&written), "{written:?} in {all:?}");
    }
    assert!(all.is_sorted_by(|a, b| a.0 + a.1 <= b.0), "{all:?}");
    let one_each: Vec<Vec<Block>> = all.iter().map(|block| vec![*block]).collect();
    assert_eq!(allocated(&world, "a", 0, 1).await.unwrap(), one_each);
    assert_eq!(allocated(&world, "a", 0, i32::MAX).await.unwrap(), std::slice::from_ref(&all));
    assert_eq!(allocated(&world, "a", 1 << 20, 0).await.unwrap(), [all[1..].to_vec()]);
    assert_eq!(allocated(&world, "a", (1 << 20) + 4 * KIB, 0).await.unwrap(), [all[2..].to_vec()]);
    let within = allocated(&world, "a", 4 * KIB, 1).await.unwrap()[0][0];
    assert!(within.0 <= 4 * KIB && within.0 + within.1 == 8 * KIB, "the first may begin before: {within:?}");
    assert_eq!(
        allocated(&world, "a", SIZE, 0).await.unwrap(),
        Vec::<Vec<Block>>::new(),
        "resumed at its end"
    );
}

#[tokio::test]
async fn what_changed() {
    let world = written(&[0, 1 << 20], &[1 << 20, 3 << 20, (3 << 20) + 4096, (SIZE - 1) as u64]).await;
    let unit = 64 * KIB;
    let all = vec![(1 << 20, unit), (3 << 20, unit), (SIZE - unit, unit)];
    assert_eq!(delta(&world, ("a", "b"), 0, 0).await.unwrap(), std::slice::from_ref(&all));
    assert_eq!(delta(&world, ("a", "b"), 0, 2).await.unwrap(), [all[..2].to_vec(), all[2..].to_vec()]);
    assert_eq!(delta(&world, ("a", "b"), (1 << 20) + unit, 0).await.unwrap(), [all[1..].to_vec()]);
    assert_eq!(
        delta(&world, ("a", "b"), (1 << 20) + 1, 0).await.unwrap(),
        std::slice::from_ref(&all),
        "within a unit"
    );
    assert_eq!(delta(&world, ("a", "a"), 0, 0).await.unwrap(), Vec::<Vec<Block>>::new());
    assert_eq!(delta(&world, ("a", "b"), SIZE, 0).await.unwrap(), Vec::<Vec<Block>>::new());
}

#[tokio::test]
async fn bad_questions() {
    let world = written(&[0], &[0]).await;
    world.controller().create_volume(create("w", block())).await.unwrap();
    world.snapshot("other", "w").await.unwrap();
    let table = [
        ("no snapshot", "", 0, 0, Code::InvalidArgument),
        ("unknown", "x", 0, 0, Code::NotFound),
        ("impossible", "../a", 0, 0, Code::NotFound),
        ("negative offset", "a", -1, 0, Code::OutOfRange),
        ("past the end", "a", SIZE + 1, 0, Code::OutOfRange),
        ("negative count", "a", 0, -1, Code::InvalidArgument),
        ("unknown, past any end", "x", -1, 0, Code::NotFound),
    ];
    for (name, id, offset, max, expected) in table {
        assert_eq!(code(&allocated(&world, id, offset, max).await), expected, "allocated: {name}");
        assert_eq!(code(&delta(&world, ("b", id), offset, max).await), expected, "target: {name}");
    }
    for (name, base, expected) in [
        ("no base", "", Code::InvalidArgument),
        ("unknown base", "x", Code::NotFound),
        ("base of another volume", "other", Code::InvalidArgument),
    ] {
        assert_eq!(code(&delta(&world, (base, "a"), 0, 0).await), expected, "{name}");
    }
}

/// The service without a socket, whose buffers would read ahead; a snapshot `s` with three pieces of data.
async fn served() -> (Arc<FakeHost>, ControllerService, MetadataService) {
    let (host, machine) = fake::host(7);
    let driver = Driver::open(host, super::world::config()).await.unwrap();
    let controller = ControllerService(driver.clone());
    controller.create_volume(Request::new(create("v", block()))).await.unwrap();
    controller.create_snapshot(Request::new(super::snapshots::cut("s", "v"))).await.unwrap();
    let image = driver.pool.snapshot_image(&SnapshotId::for_name("s"));
    for place in [0, 8192, 16_384] {
        machine.write_device(&image, place, b"data").unwrap();
    }
    (machine, controller, MetadataService { driver, stop: CancellationToken::new() })
}

fn one_at_a_time() -> Request<csi::GetMetadataAllocatedRequest> {
    let snapshot_id = "s".into();
    Request::new(csi::GetMetadataAllocatedRequest { snapshot_id, max_results: 1, ..Default::default() })
}

/// A caller that reads slowly keeps the snapshot, and one that leaves gives it back.
#[tokio::test]
async fn a_snapshot_that_is_read_is_not_deleted() {
    let (_machine, controller, service) = served().await;
    let delete = async || {
        let request = csi::DeleteSnapshotRequest { snapshot_id: "s".into(), ..Default::default() };
        code(&controller.delete_snapshot(Request::new(request)).await)
    };
    let mut first = service.get_metadata_allocated(one_at_a_time()).await.unwrap().into_inner();
    let second = service.get_metadata_allocated(one_at_a_time()).await.unwrap().into_inner();
    assert!(first.next().await.unwrap().is_ok());
    assert_eq!(delete().await, Code::Aborted);
    drop(first);
    assert_eq!(delete().await, Code::Aborted, "the other still reads");
    assert!(second.count().await >= 3);
    assert_eq!(delete().await, Code::Ok);
}

/// A stream that cannot go on ends with an error, never as if it were complete.
#[tokio::test]
async fn an_early_end_is_an_error() {
    let (machine, _controller, service) = served().await;
    let mut stream = service.get_metadata_allocated(one_at_a_time()).await.unwrap().into_inner();
    assert!(stream.next().await.unwrap().is_ok());
    machine.fail_next("extents", 5);
    assert_eq!(code(&stream.next().await.unwrap()), Code::Internal);
    assert!(stream.next().await.is_none(), "nothing follows");

    let mut stream = service.get_metadata_allocated(one_at_a_time()).await.unwrap().into_inner();
    assert!(stream.next().await.unwrap().is_ok());
    service.stop.cancel();
    assert_eq!(code(&stream.next().await.unwrap()), Code::Unavailable, "the driver stops");
}

#[tokio::test]
async fn a_failure_at_once() {
    let world = written(&[0], &[0]).await;
    world.machine.fail_next("extents", 5);
    assert_eq!(code(&allocated(&world, "a", 0, 0).await), Code::Internal);
    world.machine.fail_next("changed", 5);
    assert_eq!(code(&delta(&world, ("a", "b"), 0, 0).await), Code::Internal);
}
