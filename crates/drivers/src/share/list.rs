//! Volumes as callers see them: ListVolumes and ControllerGetVolume.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::{controller_get_volume_response, list_volumes_response};

use super::driver::Driver;
use super::record::{Phase, ShareRecord};
use crate::error::VolumeError;
use crate::fields::{existing, format_page_token, page_size, page_token};
use crate::id::VolumeId;

/// Most entries of one answer, whatever was asked: at about a quarter of a kilobyte each they stay well below the
/// 4 MiB a gRPC client accepts.
const PAGE_MAX: usize = 5_000;

/// Tokens name the last id of a page, so entries that come or go between two pages shift no others. Inline volumes
/// are not listed: nobody but the caller that published them may touch them.
pub fn page(
    driver: &Driver,
    request: &csi::ListVolumesRequest,
) -> Result<csi::ListVolumesResponse, VolumeError> {
    let count = page_size(request.max_entries)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX));
    let last = page_token(&request.starting_token)?;
    let listed =
        |_: &VolumeId, record: &ShareRecord| record.phase != Phase::Deleting && record.inline.is_none();
    let (volumes, more) = driver.shares.page(last.as_ref(), count, listed);
    let next = volumes.last().filter(|_| more).map(|(id, _)| format_page_token(id));
    Ok(csi::ListVolumesResponse {
        entries: volumes.iter().map(|(id, record)| entry(id, record)).collect(),
        next_token: next.unwrap_or_default(),
    })
}

pub fn one(
    driver: &Driver,
    request: &csi::ControllerGetVolumeRequest,
) -> Result<csi::ControllerGetVolumeResponse, VolumeError> {
    let id = existing(&request.volume_id)?;
    let record = driver.created(&id)?;
    Ok(csi::ControllerGetVolumeResponse {
        volume: Some(volume(&id, &record)),
        status: Some(controller_get_volume_response::VolumeStatus::default()),
    })
}

fn entry(id: &VolumeId, record: &ShareRecord) -> list_volumes_response::Entry {
    list_volumes_response::Entry { volume: Some(volume(id, record)), ..Default::default() }
}

pub fn volume(id: &VolumeId, record: &ShareRecord) -> csi::Volume {
    csi::Volume {
        capacity_bytes: i64::try_from(record.capacity).unwrap_or(i64::MAX),
        volume_id: id.to_string(),
        ..Default::default()
    }
}
