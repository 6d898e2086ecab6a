//! Questions about what is possible: ValidateVolumeCapabilities and GetCapacity.

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::validate_volume_capabilities_response::Confirmed;

use super::driver::Driver;
use super::parse;
use super::plan;
use super::recipe;
use super::record::VolumeRecord;
use super::room;
use super::settings::Settings;
use crate::calls::about;
use crate::capability::AccessType;
use crate::error::VolumeError;
use crate::mount_options;

/// Confirms by echoing what was checked; a volume that does not fit is an answer, not an error.
pub fn validate(
    driver: &Driver,
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> Result<csi::ValidateVolumeCapabilitiesResponse, VolumeError> {
    let id = parse::volume_id(&request.volume_id)?;
    if request.volume_capabilities.is_empty() {
        return Err(VolumeError::Missing("volume_capabilities"));
    }
    let id = id.ok_or_else(|| VolumeError::NotFound { id: crate::id::quoted(&request.volume_id) })?;
    about(&id.key());
    let record = driver.pool.ready(&id)?;
    let message = match fits(&request, &id, &record) {
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

fn fits(
    request: &csi::ValidateVolumeCapabilitiesRequest,
    id: &crate::id::VolumeId,
    record: &VolumeRecord,
) -> Result<(), VolumeError> {
    for capability in parse::capabilities(&request.volume_capabilities)? {
        let fs = plan::fits(id, &capability.access, record)?;
        if let AccessType::Mount { flags, .. } = &capability.access {
            mount_options::check(flags, fs)?;
        }
    }
    let incompatible = |what| VolumeError::Incompatible { name: record.name.clone(), what };
    let mutable = Settings::parse("mutable_parameters", &request.mutable_parameters)?;
    if !mutable.agrees_with(record.mutable) {
        return Err(incompatible("mutable parameter"));
    }
    // Left out, they are not asked about.
    let parameters = parse::parameters(request.parameters.clone())?;
    if !request.parameters.is_empty() && parameters != record.parameters {
        return Err(incompatible("parameter"));
    }
    Ok(())
}

/// Room for volumes of the described kind; none where this driver cannot make them.
pub async fn capacity(
    driver: &Driver,
    request: csi::GetCapacityRequest,
) -> Result<csi::GetCapacityResponse, VolumeError> {
    let parameters = parse::parameters(request.parameters)?;
    let here = request.accessible_topology.is_none_or(|topology| {
        driver
            .config
            .nodes()
            .any(|node| plan::reaches(std::slice::from_ref(&topology.segments), &node.topology))
    });
    let filesystem = match request.volume_capabilities.as_slice() {
        [] => Ok(None),
        wire => parse::capabilities(wire).and_then(|mut all| {
            recipe::settle(&parameters, &mut all)?;
            recipe::check(&parameters, &all)?;
            parse::access(&all).map(|access| access.filesystem)
        }),
    };
    let filesystem = match filesystem {
        Ok(filesystem) if here => filesystem,
        Ok(_) | Err(VolumeError::Unsupported { .. }) => return Ok(csi::GetCapacityResponse::default()),
        Err(error) => return Err(error),
    };
    let total = driver.pool.space().await?.total;
    Ok(room::now(driver, total).describe(filesystem))
}
