//! Questions about what is possible: ValidateVolumeCapabilities and GetCapacity.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::validate_volume_capabilities_response::Confirmed;

use super::directory::Directory;
use super::driver::Driver;
use super::parse;
use super::record::ShareRecord;
use crate::error::VolumeError;
use crate::fields::{existing, required, settings};

/// Confirms by echoing what was checked; a volume that does not fit is an answer, not an error.
pub fn validate(
    driver: &Driver,
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> Result<csi::ValidateVolumeCapabilitiesResponse, VolumeError> {
    required(&request.volume_id, "volume_id")?;
    if request.volume_capabilities.is_empty() {
        return Err(VolumeError::Missing("volume_capabilities"));
    }
    let record = driver.created(&existing(&request.volume_id)?)?;
    let message = match fits(&request, &record) {
        Ok(()) => None,
        Err(error @ VolumeError::Missing(_)) => return Err(error),
        Err(error) => Some(error.to_string()),
    };
    let confirmed = message.is_none().then_some(Confirmed {
        volume_context: request.volume_context,
        volume_capabilities: request.volume_capabilities,
        parameters: request.parameters,
        mutable_parameters: request.mutable_parameters,
    });
    Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed, message: message.unwrap_or_default() })
}

fn fits(request: &csi::ValidateVolumeCapabilitiesRequest, record: &ShareRecord) -> Result<(), VolumeError> {
    parse::capabilities(&request.volume_capabilities)?;
    let incompatible = |what| Err(VolumeError::Incompatible { name: record.name.clone(), what });
    if !request.mutable_parameters.is_empty() {
        return incompatible("mutable parameter");
    }
    // Without parameters there is nothing to compare: the caller may not know them.
    let asked = settings(request.parameters.clone());
    match asked.is_empty() || Directory::parse("parameters", asked)? == record.directory {
        true => Ok(()),
        false => incompatible("parameter"),
    }
}

/// The room of the pool; none for volumes that this driver cannot make.
///
/// Sizes are not enforced and may together promise more than the pool has, so the largest volume is bounded by
/// the size of the pool and not by what is free, exactly as in CreateVolume.
pub async fn capacity(
    driver: &Driver,
    request: csi::GetCapacityRequest,
) -> Result<csi::GetCapacityResponse, VolumeError> {
    Directory::parse("parameters", request.parameters)?;
    let possible = match request.volume_capabilities.as_slice() {
        [] => Ok(()),
        wire => parse::capabilities(wire).map(drop),
    };
    match possible {
        Ok(()) => {}
        Err(VolumeError::Unsupported { .. }) => return Ok(csi::GetCapacityResponse::default()),
        Err(error) => return Err(error),
    }
    let space = driver.shares.space().await?;
    let bytes = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Ok(csi::GetCapacityResponse {
        available_capacity: bytes(space.available),
        maximum_volume_size: Some(bytes(space.total)),
        minimum_volume_size: None,
    })
}
