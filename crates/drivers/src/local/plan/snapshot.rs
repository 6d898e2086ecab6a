//! Decisions about snapshots, groups of them, and volumes made from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::parse::CreateVolume;
use super::super::parse::snapshot::{CreateGroup, CreateSnapshot};
use super::super::record::{Contents, GroupRecord, Phase, Segments, SnapshotRecord, VolumeRecord};
use super::super::room::Room;
use super::{Create, Result};
use crate::error::VolumeError;
use crate::id::{Group, GroupId, Key, Kind, Snapshot, SnapshotId, Volume, VolumeId};
use crate::shelf::Record;

#[cfg(test)]
mod tests;

#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing was promised yet, so what a crash or failure left of it is begun again.
    Make(SnapshotRecord),
    Reuse(SnapshotRecord),
}

/// A finished snapshot needs its volume no longer, so a repeat is answered although the volume is gone.
pub fn create_snapshot(
    want: &CreateSnapshot,
    have: Option<&SnapshotRecord>,
    volume: Option<&VolumeRecord>,
) -> Result<Cut> {
    if let Some(have) = have {
        let differences = [
            (want.name != have.name || have.group.is_some(), "name"),
            (want.volume != have.volume, "source volume"),
            (want.parameters != have.parameters, "parameter"),
        ];
        same::<Snapshot>(&want.name, &differences)?;
        match have.phase {
            Phase::Ready => return Ok(Cut::Reuse(have.clone())),
            Phase::Creating => {}
            Phase::Deleting => return Err(VolumeError::Going { what: want.id.key() }),
        }
    }
    let volume = usable(&want.volume, volume)?;
    if !super::reaches(&want.requisite, &volume.topology) {
        return Err(VolumeError::Unreachable);
    }
    Ok(Cut::Make(SnapshotRecord {
        parameters: want.parameters.clone(),
        ..taken(want.name.clone(), &want.volume, volume)
    }))
}

#[derive(Debug, PartialEq, Eq)]
pub enum CutGroup {
    Make(GroupRecord, Vec<(SnapshotId, SnapshotRecord)>),
    Reuse(GroupRecord),
}

pub fn create_group(
    want: &CreateGroup,
    have: Option<&GroupRecord>,
    volume: impl Fn(&VolumeId) -> Option<Arc<VolumeRecord>>,
    snapshot: impl Fn(&SnapshotId) -> Option<Arc<SnapshotRecord>>,
) -> Result<CutGroup> {
    if let Some(have) = have {
        let differences = [
            (want.name != have.name, "name"),
            (!want.volumes.iter().eq(&have.volumes), "set of source volumes"),
            (want.parameters != have.parameters, "parameter"),
        ];
        same::<Group>(&want.name, &differences)?;
        match have.phase {
            Phase::Ready => return Ok(CutGroup::Reuse(have.clone())),
            Phase::Creating => {}
            Phase::Deleting => return Err(VolumeError::Going { what: want.id.key() }),
        }
    }
    let mut members = Vec::new();
    for id in &want.volumes {
        let member = (want.member(id), want.member_name(id));
        // A snapshot can be named like the hash that is a member's id.
        let stranger = snapshot(&member.0).is_some_and(|other| other.group.as_ref() != Some(&want.id));
        same::<Snapshot>(member.0.as_str(), &[(stranger, "group")])?;
        let record = taken(member.1, id, usable(id, volume(id).as_deref())?);
        members.push((member.0, SnapshotRecord { group: Some(want.id.clone()), ..record }));
    }
    let group = GroupRecord {
        version: GroupRecord::VERSION,
        name: want.name.clone(),
        phase: Phase::Creating,
        volumes: want.volumes.iter().cloned().collect(),
        snapshots: members.iter().map(|(id, _)| id.clone()).collect(),
        parameters: want.parameters.clone(),
        created: 0,
    };
    Ok(CutGroup::Make(group, members))
}

/// A volume on its way out is as good as gone: waiting for it would never help. An ephemeral one is its target's.
fn usable<'a>(id: &VolumeId, volume: Option<&'a VolumeRecord>) -> Result<&'a VolumeRecord> {
    let usable = volume.filter(|volume| volume.phase == Phase::Ready && !volume.ephemeral);
    usable.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
}

fn same<K: Kind>(name: &str, differences: &[(bool, &'static str)]) -> Result<()> {
    match differences.iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(VolumeError::Taken { noun: K::NOUN, name: name.to_owned(), what }),
        None => Ok(()),
    }
}

/// A snapshot of the volume as it is now, except for the bytes.
fn taken(name: String, id: &VolumeId, volume: &VolumeRecord) -> SnapshotRecord {
    SnapshotRecord {
        version: SnapshotRecord::VERSION,
        name,
        phase: Phase::Creating,
        volume: id.clone(),
        size: volume.capacity,
        created: 0,
        parameters: Default::default(),
        access: volume.access,
        contents: copied(volume.contents),
        topology: volume.topology.clone(),
        group: None,
    }
}

/// What a copy holds. Half a filesystem is worth nothing, and nobody has seen it.
pub fn copied(contents: Contents) -> Contents {
    match contents {
        Contents::Blank | Contents::Formatting(_) => Contents::Blank,
        Contents::Copied(fs) | Contents::Formatted(fs) => Contents::Copied(fs),
        Contents::Raw => Contents::Raw,
    }
}

/// Why a snapshot may not be deleted by itself.
pub fn member_of(id: &SnapshotId, have: &SnapshotRecord, group: Option<&GroupRecord>) -> Result<()> {
    match (&have.group, group) {
        (Some(group), Some(_)) => Err(VolumeError::Member { id: id.clone(), group: group.key() }),
        (Some(_), None) | (None, _) => Ok(()),
    }
}

/// Whether callers may know of a snapshot. Members appear and disappear together with their group.
pub fn visible(have: &SnapshotRecord, group: Option<&GroupRecord>) -> bool {
    have.phase == Phase::Ready && group.is_none_or(|group| group.phase == Phase::Ready)
}

/// Whether the caller named exactly the members.
pub fn same_members(id: &GroupId, have: &GroupRecord, named: &BTreeSet<String>) -> Result<()> {
    let members: BTreeSet<&str> = have.snapshots.iter().map(SnapshotId::as_str).collect();
    let same = named.iter().map(String::as_str).eq(members);
    if same { Ok(()) } else { Err(VolumeError::OtherMembers { group: id.key() }) }
}

/// What a new volume gets its first bytes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub size: u64,
    pub contents: Contents,
    pub topology: Segments,
}

impl Origin {
    pub fn of_volume(volume: &VolumeRecord) -> Self {
        let (size, topology) = (volume.capacity, volume.topology.clone());
        Self { size, contents: copied(volume.contents), topology }
    }

    pub fn of_snapshot(snapshot: &SnapshotRecord) -> Self {
        let (size, topology) = (snapshot.size, snapshot.topology.clone());
        Self { size, contents: copied(snapshot.contents), topology }
    }
}

/// Plans a volume that is made from another or from a snapshot.
///
/// Nothing was promised of one that is half made. It is planned anew, since its source may have changed.
pub fn create_from(
    mut want: CreateVolume,
    have: Option<VolumeRecord>,
    origin: &Origin,
    room: Room,
) -> Result<Create> {
    inherit(&mut want, origin)?;
    let (begun, have) = match have {
        Some(have) if have.phase == Phase::Creating && have.source.is_some() => (Some(have), None),
        have => (None, have),
    };
    if let Some(begun) = &begun {
        let differs =
            begun.name != want.name || begun.source != want.source || begun.parameters != want.parameters;
        same::<Volume>(&want.name, &[(differs, "name, source or parameter")])?;
    }
    match super::create(&want, have, &[&origin.topology], room)? {
        Create::Make(record) if record.capacity < origin.size => {
            let why = format!("{} bytes are less than the {} of the source", record.capacity, origin.size);
            Err(VolumeError::OutOfRange { why })
        }
        Create::Make(record) => {
            let record = VolumeRecord { source: want.source, contents: origin.contents, ..record };
            Ok(if begun.is_some() { Create::Resume(record) } else { Create::Make(record) })
        }
        other @ (Create::Resume(_) | Create::Reuse(_)) => Ok(other),
    }
}

/// Fits a request to its source: the same filesystem and size unless the caller asks otherwise.
fn inherit(want: &mut CreateVolume, origin: &Origin) -> Result<()> {
    if want.range.required == 0 && (want.range.limit == 0 || want.range.limit >= origin.size) {
        want.range.required = origin.size;
    }
    let Contents::Copied(held) = origin.contents else { return Ok(()) };
    match want.access.filesystem {
        Some(asked) if want.chose_filesystem && asked != held => {
            let why = format!("the source holds `{}`, `{}` requested", held.as_str(), asked.as_str());
            Err(VolumeError::Unsupported { why })
        }
        Some(_) => {
            want.access.filesystem = Some(held);
            Ok(())
        }
        // Whoever asks for the bare device gets the bytes as they are, such as a backup program.
        None => Ok(()),
    }
}

/// Completes a request whose volume is there already: a filesystem left open is the one it has.
pub fn keep(want: &mut CreateVolume, have: &VolumeRecord) {
    if want.source.is_some() && !want.chose_filesystem && want.access.filesystem.is_some() {
        want.access.filesystem = have.access.filesystem;
    }
}

/// What to hold to work on a whole group.
pub fn group_keys(id: &GroupId, have: Option<&GroupRecord>) -> Vec<Key> {
    let members = have.iter().flat_map(|have| have.snapshots.iter().map(SnapshotId::key));
    std::iter::once(id.key()).chain(members).collect()
}
