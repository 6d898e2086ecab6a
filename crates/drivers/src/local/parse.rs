//! Requests as types. Every INVALID_ARGUMENT of the driver is decided here or in what this calls.
//!
//! The order of checks is the one callers rely on: missing fields first, then values; an id that no volume
//! can have is reported last, as a volume that does not exist.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use bowline_proto::csi::v1 as csi;

use super::record::{Access, Segments};
use crate::capability::{AccessType, Capability, FsType};
use crate::capacity::Range;
use crate::error::VolumeError;
use crate::id::{VolumeId, quoted};

type Result<T> = std::result::Result<T, VolumeError>;

/// Longest name CSI allows, in bytes.
const NAME_MAX: usize = 128;
/// Longest node id CSI allows, in bytes.
const NODE_ID_MAX: usize = 256;
/// Keys below this prefix are the caller's remarks, never settings.
const METADATA_PREFIX: &str = "csi.storage.k8s.io/";
/// Marks our page tokens. No volume id contains it.
const TOKEN_PREFIX: &str = "after:";

#[derive(Debug)]
pub struct CreateVolume {
    pub id: VolumeId,
    pub name: String,
    pub range: Range,
    pub access: Access,
    pub parameters: BTreeMap<String, String>,
    /// Places of which one has to reach the volume; empty means anywhere.
    pub requisite: Vec<Segments>,
    /// Places that would be best, best first.
    pub preferred: Vec<Segments>,
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

/// A reverse call: where to undo, and on which volume, if one can have that id at all.
#[derive(Debug)]
pub struct Undo {
    pub asked: String,
    pub id: Option<VolumeId>,
    pub path: PathBuf,
}

impl Undo {
    /// What to hold while undoing. An id that no volume has still names one operation.
    pub fn key(&self) -> VolumeId {
        self.id.clone().unwrap_or_else(|| VolumeId::for_name(&self.asked))
    }
}

pub fn create_volume(request: csi::CreateVolumeRequest) -> Result<CreateVolume> {
    name(&request.name)?;
    let access = access(&capabilities(&request.volume_capabilities)?)?;
    if request.volume_content_source.is_some() {
        return Err(invalid("volume_content_source", "volumes start empty"));
    }
    if let Some(key) = request.mutable_parameters.keys().next() {
        return Err(invalid("mutable_parameters", format!("unknown key `{}`", quoted(key))));
    }
    let places = request.accessibility_requirements.unwrap_or_default();
    let segments = |wire: Vec<csi::Topology>| wire.into_iter().map(|topology| topology.segments).collect();
    Ok(CreateVolume {
        id: VolumeId::for_name(&request.name),
        range: Range::parse(request.capacity_range.as_ref())?,
        access,
        parameters: parameters(request.parameters)?,
        requisite: segments(places.requisite),
        preferred: segments(places.preferred),
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
    undo(&request.volume_id, &request.staging_target_path, "staging_target_path")
}

pub fn node_unpublish_volume(request: &csi::NodeUnpublishVolumeRequest) -> Result<Undo> {
    undo(&request.volume_id, &request.target_path, "target_path")
}

/// An id for calls that are done when no such volume exists.
pub fn volume_id(text: &str) -> Result<Option<VolumeId>> {
    required(text, "volume_id")?;
    Ok(VolumeId::parse(text))
}

/// An id for calls that need the volume.
pub fn existing(text: &str) -> Result<VolumeId> {
    volume_id(text)?.ok_or_else(|| VolumeError::NotFound { id: quoted(text) })
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
                let fs = fs.unwrap_or(FsType::Ext4);
                if access.filesystem.is_some_and(|other| other != fs) {
                    return Err(VolumeError::Unsupported { why: "two filesystems on one volume".into() });
                }
                access.filesystem = Some(fs);
            }
        }
    }
    Ok(access)
}

/// The parameters that shape the volume. There are none yet, so a typing error never goes unnoticed.
pub fn parameters(mut wire: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    wire.retain(|key, _| !key.starts_with(METADATA_PREFIX));
    match wire.keys().next() {
        Some(key) => Err(invalid("parameters", format!("unknown key `{}`", quoted(key)))),
        None => Ok(wire),
    }
}

/// The id after which a page starts.
pub fn page_token(token: &str) -> Result<Option<VolumeId>> {
    if token.is_empty() {
        return Ok(None);
    }
    let id = token.strip_prefix(TOKEN_PREFIX).and_then(VolumeId::parse);
    id.map(Some).ok_or(VolumeError::BadToken)
}

pub fn format_page_token(last: &VolumeId) -> String {
    format!("{TOKEN_PREFIX}{last}")
}

/// Entries wanted on a page; `None` when the caller sets no limit.
pub fn page_size(max_entries: i32) -> Result<Option<usize>> {
    match usize::try_from(max_entries) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => Err(invalid("max_entries", "negative")),
    }
}

fn capability(wire: Option<&csi::VolumeCapability>) -> Result<Capability> {
    Capability::parse(wire.ok_or(VolumeError::Missing("volume_capability"))?)
}

fn undo(volume: &str, place: &str, field: &'static str) -> Result<Undo> {
    let id = volume_id(volume)?;
    Ok(Undo { asked: quoted(volume), id, path: path(place, field)? })
}

fn name(text: &str) -> Result<()> {
    required(text, "name")?;
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    match text.len() > NAME_MAX || text.contains(control) {
        true => Err(invalid("name", "longer than 128 bytes, or holds control characters")),
        false => Ok(()),
    }
}

/// An absolute path spelled as the mount table spells it.
fn path(text: &str, field: &'static str) -> Result<PathBuf> {
    required(text, field)?;
    let path = PathBuf::from(text);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || climbs || path.parent().is_none() || text.contains('\0') {
        return Err(invalid(field, "not an absolute path without `..`"));
    }
    Ok(path.components().collect())
}

fn required(text: &str, field: &'static str) -> Result<()> {
    if text.is_empty() { Err(VolumeError::Missing(field)) } else { Ok(()) }
}

fn invalid(field: &'static str, why: impl Into<String>) -> VolumeError {
    VolumeError::Invalid { field, why: why.into() }
}
