//! Snapshots as callers see them: ListSnapshots and GetSnapshot.

use std::sync::Arc;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::list_snapshots_response::Entry;

use super::super::driver::Driver;
use super::super::parse;
use super::super::plan::snapshot as plan;
use super::super::record::{GroupRecord, SnapshotRecord};
use crate::error::VolumeError;
use crate::id::{GroupId, SnapshotId};

/// Most entries of one answer, whatever was asked; at a third of a kilobyte each they stay well below the
/// 4 MiB a gRPC client accepts.
const PAGE_MAX: usize = 5_000;

/// Filters that match nothing are an empty list. Tokens name the last id of a page, so entries that come or go
/// between two pages shift no others.
pub fn page(
    driver: &Driver,
    request: &csi::ListSnapshotsRequest,
) -> Result<csi::ListSnapshotsResponse, VolumeError> {
    let count = parse::page_size(request.max_entries)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX));
    let last = parse::page_token(&request.starting_token)?;
    let matches = |filter: &str, text: &str| filter.is_empty() || filter == text;
    let wanted = |id: &SnapshotId, record: &SnapshotRecord| {
        matches(&request.snapshot_id, id.as_str())
            && matches(&request.source_volume_id, record.volume.as_str())
            && plan::visible(record, super::group_of(driver, record).as_deref())
    };
    let (snapshots, more) = driver.pool.snapshots.page(last.as_ref(), count, wanted);
    let next = snapshots.last().filter(|_| more).map(|(id, _)| parse::format_page_token(id));
    let entry = |(id, record): &(SnapshotId, Arc<_>)| Entry { snapshot: Some(snapshot(driver, id, record)) };
    Ok(csi::ListSnapshotsResponse {
        entries: snapshots.iter().map(entry).collect(),
        next_token: next.unwrap_or_default(),
    })
}

pub fn one(
    driver: &Driver,
    request: &csi::GetSnapshotRequest,
) -> Result<csi::GetSnapshotResponse, VolumeError> {
    let id = parse::snapshot::existing_snapshot(&request.snapshot_id, "snapshot_id")?;
    let record = super::ready(driver, &id)?;
    Ok(csi::GetSnapshotResponse { snapshot: Some(snapshot(driver, &id, &record)) })
}

pub fn snapshot(driver: &Driver, id: &SnapshotId, record: &SnapshotRecord) -> csi::Snapshot {
    let places = driver.config.dialect.has_snapshot_topology().then(|| record.topology.clone());
    csi::Snapshot {
        size_bytes: i64::try_from(record.size).unwrap_or(i64::MAX),
        snapshot_id: id.to_string(),
        source_volume_id: record.volume.to_string(),
        creation_time: Some(time(record.created)),
        ready_to_use: true,
        group_snapshot_id: record.group.as_ref().map(GroupId::to_string).unwrap_or_default(),
        accessible_topology: places.into_iter().map(|segments| csi::Topology { segments }).collect(),
    }
}

/// A group that is there has all its members.
pub fn group(driver: &Driver, id: &GroupId, record: &GroupRecord) -> csi::VolumeGroupSnapshot {
    let member = |id: &SnapshotId| Some(snapshot(driver, id, &*driver.pool.snapshots.get(id)?));
    csi::VolumeGroupSnapshot {
        group_snapshot_id: id.to_string(),
        snapshots: record.snapshots.iter().filter_map(member).collect(),
        creation_time: Some(time(record.created)),
        ready_to_use: true,
    }
}

fn time(seconds: u64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}
