//! Requests as types. Every INVALID_ARGUMENT of the driver is decided here or in what this calls.
//!
//! The order of checks is the one callers rely on: missing fields first, then values; an id that no volume
//! can have is reported last, as a volume that does not exist.

use std::path::PathBuf;

use bowline_proto::csi::v1 as csi;

use super::capability::Capability;
use super::directory::Directory;
use super::target::TARGET_FIELD;
use crate::capacity::Range;
use crate::error::VolumeError;
use crate::fields::{existing, invalid, name, none_left, path, required};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// Set by callers when no CreateVolume came before and no DeleteVolume will follow.
const INLINE: &str = "csi.storage.k8s.io/ephemeral";

#[derive(Debug)]
pub struct CreateVolume {
    pub id: VolumeId,
    pub name: String,
    pub range: Range,
    pub directory: Directory,
}

#[derive(Debug)]
pub struct NodePublishVolume {
    pub id: VolumeId,
    pub target: PathBuf,
    pub capability: Capability,
    pub read_only: bool,
    /// For a volume that is made here and goes with its target.
    pub inline: Option<Directory>,
}

pub fn create_volume(request: csi::CreateVolumeRequest) -> Result<CreateVolume> {
    name(&request.name)?;
    capabilities(&request.volume_capabilities)?;
    if request.volume_content_source.is_some() {
        return Err(invalid("volume_content_source", "shares start empty"));
    }
    none_left("mutable_parameters", &request.mutable_parameters)?;
    Ok(CreateVolume {
        id: VolumeId::for_name(&request.name),
        range: Range::parse(request.capacity_range.as_ref())?,
        directory: Directory::parse("parameters", request.parameters)?,
        name: request.name,
    })
}

pub fn expand_volume(request: &csi::ControllerExpandVolumeRequest) -> Result<(VolumeId, Range)> {
    required(&request.volume_id, "volume_id")?;
    let wire = request.capacity_range.as_ref().ok_or(VolumeError::Missing("capacity_range"))?;
    let range = Range::parse(Some(wire))?;
    if range == Range::default() {
        return Err(invalid("capacity_range", "neither required_bytes nor limit_bytes is set"));
    }
    request.volume_capability.as_ref().map(Capability::parse).transpose()?;
    Ok((existing(&request.volume_id)?, range))
}

pub fn node_publish_volume(request: csi::NodePublishVolumeRequest) -> Result<NodePublishVolume> {
    required(&request.volume_id, "volume_id")?;
    let target = path(&request.target_path, TARGET_FIELD)?;
    let capability = request.volume_capability.as_ref().ok_or(VolumeError::Missing("volume_capability"))?;
    let capability = Capability::parse(capability)?;
    let inline = match request.volume_context.get(INLINE).map(String::as_str) {
        Some("true") => Some(Directory::parse("volume_context", request.volume_context)?),
        // Others are remarks on a volume whose settings are in its record.
        Some(_) | None => None,
    };
    let id = match inline {
        // This call makes the volume, so an id that none can have is wrong instead of unknown.
        Some(_) => VolumeId::parse(&request.volume_id).ok_or_else(|| invalid("volume_id", "not an id"))?,
        None => existing(&request.volume_id)?,
    };
    Ok(NodePublishVolume { id, target, capability, read_only: request.readonly, inline })
}

pub fn capabilities(wire: &[csi::VolumeCapability]) -> Result<Vec<Capability>> {
    if wire.is_empty() {
        return Err(VolumeError::Missing("volume_capabilities"));
    }
    wire.iter().map(Capability::parse).collect()
}
