//! Requests about snapshots, groups of them, and volumes made from them.

use std::collections::{BTreeMap, BTreeSet};

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_content_source::Type as WireSource;

use super::super::record::{Segments, Source};
use super::Result;
use crate::error::VolumeError;
use crate::fields::{METADATA_PREFIX, invalid, name, required};
use crate::id::{GroupId, Id, Key, Kind, SnapshotId, VolumeId, quoted};

#[derive(Debug)]
pub struct CreateSnapshot {
    pub id: SnapshotId,
    pub name: String,
    pub volume: VolumeId,
    pub parameters: BTreeMap<String, String>,
    /// Places of which one has to reach it; empty means anywhere.
    pub requisite: Vec<Segments>,
}

#[derive(Debug)]
pub struct CreateGroup {
    pub id: GroupId,
    pub name: String,
    /// In id order, since the caller's order means nothing.
    pub volumes: BTreeSet<VolumeId>,
    pub parameters: BTreeMap<String, String>,
}

/// A group that a caller knows, by its id and those of its members.
#[derive(Debug)]
pub struct KnownGroup {
    pub asked: String,
    pub id: Option<GroupId>,
    pub snapshots: BTreeSet<String>,
}

impl CreateGroup {
    /// The members' ids follow from the group and their volumes. No name is an id with a slash in it, so they
    /// are nobody else's.
    pub fn member_name(&self, volume: &VolumeId) -> String {
        format!("{}/{volume}", self.id)
    }

    pub fn member(&self, volume: &VolumeId) -> SnapshotId {
        SnapshotId::for_name(&self.member_name(volume))
    }

    /// Everything that is touched.
    pub fn keys(&self) -> Vec<Key> {
        let members = self.volumes.iter().flat_map(|volume| [volume.key(), self.member(volume).key()]);
        std::iter::once(self.id.key()).chain(members).collect()
    }
}

pub fn create_snapshot(request: csi::CreateSnapshotRequest) -> Result<CreateSnapshot> {
    name(&request.name)?;
    required(&request.source_volume_id, "source_volume_id")?;
    Ok(CreateSnapshot {
        id: SnapshotId::for_name(&request.name),
        parameters: snapshot_parameters(request.parameters)?,
        volume: super::existing(&request.source_volume_id)?,
        requisite: {
            let places = request.accessibility_requirements.unwrap_or_default().requisite;
            places.into_iter().map(|topology| topology.segments).collect()
        },
        name: request.name,
    })
}

pub fn create_group(request: csi::CreateVolumeGroupSnapshotRequest) -> Result<CreateGroup> {
    name(&request.name)?;
    if request.source_volume_ids.is_empty() {
        return Err(VolumeError::Missing("source_volume_ids"));
    }
    let parameters = snapshot_parameters(request.parameters)?;
    let mut volumes = BTreeSet::new();
    for text in &request.source_volume_ids {
        required(text, "source_volume_ids")?;
        if !volumes.insert(super::existing(text)?) {
            return Err(invalid("source_volume_ids", format!("names `{}` twice", quoted(text))));
        }
    }
    Ok(CreateGroup { id: GroupId::for_name(&request.name), name: request.name, volumes, parameters })
}

/// Whether the members are right is decided by who knows them: an unknown group comes first.
pub fn known_group(group: &str, snapshots: &[String]) -> Result<KnownGroup> {
    required(group, "group_snapshot_id")?;
    let snapshots = snapshots.iter().cloned().collect();
    Ok(KnownGroup { asked: quoted(group), id: GroupId::parse(group), snapshots })
}

/// An id for calls that are done when there is no such snapshot.
pub fn snapshot_id(text: &str, field: &'static str) -> Result<Option<SnapshotId>> {
    required(text, field)?;
    Ok(SnapshotId::parse(text))
}

/// An id for calls that need the snapshot.
pub fn existing_snapshot(text: &str, field: &'static str) -> Result<SnapshotId> {
    snapshot_id(text, field)?.ok_or_else(|| absent::<crate::id::Snapshot>(text))
}

pub fn absent<K: Kind>(text: &str) -> VolumeError {
    VolumeError::Absent { noun: K::NOUN, id: quoted(text) }
}

pub fn gone<K: Kind>(id: &Id<K>) -> VolumeError {
    absent::<K>(id.as_str())
}

/// Where the first bytes of a new volume come from.
pub fn source(wire: Option<&csi::VolumeContentSource>) -> Result<Option<Source>> {
    let Some(wire) = wire else { return Ok(None) };
    match wire.r#type.as_ref().ok_or(VolumeError::Missing("volume_content_source.type"))? {
        WireSource::Snapshot(snapshot) => {
            let field = "volume_content_source.snapshot_id";
            Ok(Some(Source::Snapshot(existing_snapshot(&snapshot.snapshot_id, field)?)))
        }
        WireSource::Volume(volume) => {
            required(&volume.volume_id, "volume_content_source.volume_id")?;
            Ok(Some(Source::Volume(super::existing(&volume.volume_id)?)))
        }
    }
}

/// Nothing about a snapshot can be chosen, so a typing error never goes unnoticed.
fn snapshot_parameters(mut wire: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    wire.retain(|key, _| !key.starts_with(METADATA_PREFIX));
    match wire.keys().next() {
        Some(key) => Err(invalid("parameters", format!("unknown key `{}`", quoted(key)))),
        None => Ok(wire),
    }
}
