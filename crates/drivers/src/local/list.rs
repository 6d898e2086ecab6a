//! Volumes as callers see them: ListVolumes and ControllerGetVolume.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::{controller_get_volume_response, list_volumes_response};

use super::driver::Driver;
use super::record::{Phase, VolumeRecord};
use super::{health, parse, restore};
use crate::calls::about;
use crate::capacity::wire;
use crate::error::VolumeError;
use crate::id::VolumeId;

/// Most entries of one answer, whatever was asked: at about half a kilobyte each they stay well below the
/// 4 MiB a gRPC client accepts.
pub const PAGE_MAX: usize = 5_000;

/// Tokens name the last id of a page, so entries that come or go between two pages shift no others.
pub fn page(
    driver: &Driver,
    request: &csi::ListVolumesRequest,
) -> Result<csi::ListVolumesResponse, VolumeError> {
    let count = parse::page_size(request.max_entries)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX));
    let last = parse::page_token(&request.starting_token)?;
    let listed = |_: &VolumeId, record: &VolumeRecord| record.phase != Phase::Deleting && !record.ephemeral;
    let (volumes, more) = driver.pool.volumes.page(last.as_ref(), count, listed);
    let conditions = driver.config.dialect.has_conditions().then(|| driver.health.adverse());
    let condition = |id| {
        conditions.as_ref().map(|adverse| health::condition(adverse.get(id).map_or(&[], |findings| findings)))
    };
    let next = volumes.last().filter(|_| more).map(|(id, _)| parse::format_page_token(id));
    Ok(csi::ListVolumesResponse {
        entries: volumes.iter().map(|(id, record)| entry(id, record, condition(id))).collect(),
        next_token: next.unwrap_or_default(),
    })
}

pub async fn one(
    driver: &Driver,
    request: &csi::ControllerGetVolumeRequest,
) -> Result<csi::ControllerGetVolumeResponse, VolumeError> {
    let id = parse::existing(&request.volume_id)?;
    about(&id.key());
    let record = driver.pool.ready(&id)?;
    let status = controller_get_volume_response::VolumeStatus {
        published_node_ids: nodes(&record),
        volume_condition: match driver.config.dialect.has_conditions() {
            true => Some(health::condition(&health::of(driver, &id).await?)),
            false => None,
        },
    };
    Ok(csi::ControllerGetVolumeResponse { volume: Some(volume(&id, &record)), status: Some(status) })
}

pub fn volume(id: &VolumeId, record: &VolumeRecord) -> csi::Volume {
    csi::Volume {
        capacity_bytes: wire(record.capacity),
        volume_id: id.to_string(),
        content_source: record.source.as_ref().map(restore::content_source),
        accessible_topology: vec![csi::Topology { segments: record.topology.clone() }],
        ..Default::default()
    }
}

fn entry(
    id: &VolumeId,
    record: &VolumeRecord,
    volume_condition: Option<csi::VolumeCondition>,
) -> list_volumes_response::Entry {
    let published_node_ids = nodes(record);
    let status = list_volumes_response::VolumeStatus { published_node_ids, volume_condition };
    list_volumes_response::Entry { volume: Some(volume(id, record)), status: Some(status) }
}

fn nodes(record: &VolumeRecord) -> Vec<String> {
    record.published.keys().cloned().collect()
}
