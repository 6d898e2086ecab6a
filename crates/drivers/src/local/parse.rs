//! Requests as types. Every INVALID_ARGUMENT of the driver is decided here or in what this calls, but for what only a new
//! volume is refused for (`recipe`).
//!
//! The order of checks is the one callers rely on: missing fields first, then values; an id that no volume
//! can have is reported last, as a volume that does not exist.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_proto::csi::v1 as csi;

use super::recipe;
use super::record::{Access, Segments, Source};
use super::settings::{self, Settings};
use crate::capability::{AccessType, Capability};
use crate::capacity::Range;
use crate::error::VolumeError;
use crate::fields::{self, invalid, name, path, required};
pub use crate::fields::{Undo, existing, format_page_token, page_size, page_token, volume_id};
use crate::id::{Key, VolumeId, quoted};

pub mod snapshot;

type Result<T> = std::result::Result<T, VolumeError>;

/// Longest node id CSI allows, in bytes.
const NODE_ID_MAX: usize = 256;

#[derive(Debug)]
pub struct CreateVolume {
    pub id: VolumeId,
    pub name: String,
    pub range: Range,
    pub access: Access,
    /// What a new volume has to be made and mounted with; one that exists is not judged by it.
    pub capabilities: Vec<Capability>,
    /// Whether the caller chose the filesystem, as opposed to taking what comes.
    pub chose_filesystem: bool,
    pub source: Option<Source>,
    pub parameters: BTreeMap<String, String>,
    pub mutable: Settings,
    /// Places of which one has to reach the volume; empty means anywhere.
    pub requisite: Vec<Segments>,
    /// Places that would be best, best first.
    pub preferred: Vec<Segments>,
    /// Made for one target and gone with it.
    pub ephemeral: bool,
}

impl CreateVolume {
    /// What to have alone and what to share while making it. A volume is stopped to be copied, and that only
    /// one can do at a time; a snapshot stands still by itself.
    pub fn keys(&self) -> (Vec<Key>, Vec<Key>) {
        match &self.source {
            None => (vec![self.id.key()], Vec::new()),
            Some(Source::Volume(source)) => (vec![self.id.key(), source.key()], Vec::new()),
            Some(Source::Snapshot(source)) => (vec![self.id.key()], vec![source.key()]),
        }
    }
}

#[derive(Debug)]
pub struct PublishVolume {
    pub id: VolumeId,
    pub node: String,
    pub capability: Capability,
    pub read_only: bool,
}

#[derive(Debug)]
pub struct StageVolume {
    pub id: VolumeId,
    pub path: PathBuf,
    pub capability: Capability,
}

#[derive(Debug)]
pub struct NodePublishVolume {
    pub id: VolumeId,
    /// Empty when the caller left it out, which is a wrong state and not a wrong argument.
    pub staging: PathBuf,
    pub target: PathBuf,
    pub capability: Capability,
    pub read_only: bool,
}

pub fn create_volume(request: csi::CreateVolumeRequest) -> Result<CreateVolume> {
    name(&request.name)?;
    let parameters = parameters(request.parameters)?;
    let mut capabilities = capabilities(&request.volume_capabilities)?;
    recipe::settle(&parameters, &mut capabilities)?;
    let access = access(&capabilities)?;
    let names_filesystem = |c: &Capability| matches!(c.access, AccessType::Mount { fs: Some(_), .. });
    let mutable = Settings::parse("mutable_parameters", &request.mutable_parameters)?;
    let mutable = mutable.over(Settings::among("parameters", &parameters)?);
    let places = request.accessibility_requirements.unwrap_or_default();
    let segments = |wire: Vec<csi::Topology>| wire.into_iter().map(|topology| topology.segments).collect();
    Ok(CreateVolume {
        id: VolumeId::for_name(&request.name),
        range: Range::parse(request.capacity_range.as_ref())?,
        access,
        chose_filesystem: capabilities.iter().any(names_filesystem),
        capabilities,
        source: snapshot::source(request.volume_content_source.as_ref())?,
        parameters,
        mutable,
        requisite: segments(places.requisite),
        preferred: segments(places.preferred),
        ephemeral: false,
        name: request.name,
    })
}

pub fn publish_volume(request: &csi::ControllerPublishVolumeRequest) -> Result<PublishVolume> {
    required(&request.volume_id, "volume_id")?;
    required(&request.node_id, "node_id")?;
    if request.node_id.len() > NODE_ID_MAX {
        return Err(invalid("node_id", "too long"));
    }
    let capability = capability(request.volume_capability.as_ref())?;
    let id = existing(&request.volume_id)?;
    Ok(PublishVolume { id, node: request.node_id.clone(), capability, read_only: request.readonly })
}

pub fn stage_volume(request: &csi::NodeStageVolumeRequest) -> Result<StageVolume> {
    required(&request.volume_id, "volume_id")?;
    let path = path(&request.staging_target_path, "staging_target_path")?;
    let capability = capability(request.volume_capability.as_ref())?;
    Ok(StageVolume { id: existing(&request.volume_id)?, path, capability })
}

pub fn node_publish_volume(request: &csi::NodePublishVolumeRequest) -> Result<NodePublishVolume> {
    required(&request.volume_id, "volume_id")?;
    let target = path(&request.target_path, "target_path")?;
    let capability = capability(request.volume_capability.as_ref())?;
    let staging = match request.staging_target_path.as_str() {
        "" => PathBuf::new(),
        text => path(text, "staging_target_path")?,
    };
    let id = existing(&request.volume_id)?;
    Ok(NodePublishVolume { id, staging, target, capability, read_only: request.readonly })
}

/// Both paths are optional, as the volume may never have come so far.
pub fn node_volume_health(request: &csi::NodeGetVolumeHealthRequest) -> Result<VolumeId> {
    required(&request.volume_id, "volume_id")?;
    let paths = [
        (&request.volume_publish_path, "volume_publish_path"),
        (&request.staging_target_path, "staging_target_path"),
    ];
    for (text, field) in paths.into_iter().filter(|(text, _)| !text.is_empty()) {
        path(text, field)?;
    }
    existing(&request.volume_id)
}

pub fn unstage_volume(request: &csi::NodeUnstageVolumeRequest) -> Result<Undo> {
    Undo::parse(&request.volume_id, &request.staging_target_path, "staging_target_path")
}

pub fn node_unpublish_volume(request: &csi::NodeUnpublishVolumeRequest) -> Result<Undo> {
    Undo::parse(&request.volume_id, &request.target_path, "target_path")
}

pub fn capabilities(wire: &[csi::VolumeCapability]) -> Result<Vec<Capability>> {
    if wire.is_empty() {
        return Err(VolumeError::Missing("volume_capabilities"));
    }
    wire.iter().map(Capability::parse).collect()
}

/// Everything the volume has to serve, since the caller may later use any of it.
pub fn access(capabilities: &[Capability]) -> Result<Access> {
    let mut access = Access { block: false, filesystem: None };
    for capability in capabilities {
        match capability.access {
            AccessType::Block => access.block = true,
            AccessType::Mount { fs, .. } => {
                let fs = fs.unwrap_or_default();
                if access.filesystem.is_some_and(|other| other != fs) {
                    return Err(VolumeError::Unsupported { why: "two filesystems on one volume".into() });
                }
                access.filesystem = Some(fs);
            }
        }
    }
    Ok(access)
}

/// The parameters that shape the volume. Only known ones pass, so a typing error never goes unnoticed.
pub fn parameters(wire: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let shaping = fields::settings(wire);
    Settings::among("parameters", &shaping)?;
    let known = |key: &str| settings::is_key(key) || recipe::KEYS.contains(&key);
    match shaping.keys().find(|key| !known(key)) {
        Some(key) => Err(invalid("parameters", format!("unknown key `{}`", quoted(key)))),
        None => Ok(shaping),
    }
}

pub fn capability(wire: Option<&csi::VolumeCapability>) -> Result<Capability> {
    Capability::parse(wire.ok_or(VolumeError::Missing("volume_capability"))?)
}
