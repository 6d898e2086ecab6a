//! Decisions: what was asked and what is there → what to do. No I/O, so each is a table in `plan/tests.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bowline_host::kernel::Content;

use super::config::NamedNode;
use super::mounts::{Owner, Seen};
use super::parse::{CreateVolume, NodePublishVolume, PublishVolume, StageVolume};
use super::record::{Attachment, Contents, Phase, Segments, Staging, VolumeRecord};
use super::room::Room;
use crate::capability::{AccessType, FsType, Mode};
use crate::error::VolumeError;
use crate::id::VolumeId;
use crate::shelf::Record;

pub mod snapshot;
#[cfg(test)]
mod tests;

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug, PartialEq, Eq)]
pub enum Create {
    Make(VolumeRecord),
    /// A crash left it half made.
    Resume(VolumeRecord),
    Reuse(VolumeRecord),
}

pub fn create(
    want: &CreateVolume,
    have: Option<VolumeRecord>,
    places: &[&Segments],
    room: Room,
) -> Result<Create> {
    if let Some(have) = have {
        compatible(want, &have)?;
        return match have.phase {
            Phase::Creating => Ok(Create::Resume(have)),
            Phase::Ready => Ok(Create::Reuse(have)),
            Phase::Deleting => Err(VolumeError::Deleting { id: want.id.clone() }),
        };
    }
    let place = place(want, places).ok_or(VolumeError::Unreachable)?;
    let capacity = room.choose(&want.range, want.access.filesystem)?;
    Ok(Create::Make(VolumeRecord {
        version: VolumeRecord::VERSION,
        name: want.name.clone(),
        phase: Phase::Creating,
        capacity,
        access: want.access,
        parameters: want.parameters.clone(),
        mutable: want.mutable,
        source: None,
        topology: place.clone(),
        contents: Contents::Blank,
        filled: None,
        published: BTreeMap::new(),
        staged: BTreeMap::new(),
        device: None,
        ephemeral: want.ephemeral,
    }))
}

/// The best of our places that the caller allows.
fn place<'a>(want: &CreateVolume, places: &[&'a Segments]) -> Option<&'a Segments> {
    let allowed = || places.iter().copied().filter(|place| reaches(&want.requisite, place));
    let preferred = want
        .preferred
        .iter()
        .find_map(|wish| allowed().find(|place| reaches(std::slice::from_ref(wish), place)));
    preferred.or_else(|| allowed().next())
}

/// A repeat may ask for less than the volume gives, never for something else. The name is compared because
/// one name could be chosen to equal the hashed id of another.
fn compatible(want: &CreateVolume, have: &VolumeRecord) -> Result<()> {
    let fs_fits = want.access.filesystem.is_none() || want.access.filesystem == have.access.filesystem;
    let differences = [
        (want.name != have.name, "name"),
        (want.ephemeral != have.ephemeral, "lifecycle"),
        (!want.range.admits(have.capacity), "size"),
        (!fs_fits || (want.access.block && !have.access.block), "capability"),
        (want.parameters != have.parameters, "parameter"),
        (want.mutable != have.mutable, "mutable parameter"),
        (want.source != have.source, "source"),
        (!reaches(&want.requisite, &have.topology), "topology"),
    ];
    match differences.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(VolumeError::Incompatible { name: want.name.clone(), what }),
        None => Ok(()),
    }
}

/// Whether one of the required places includes this one. Preferences never exclude (CSI `TopologyRequirement`).
pub fn reaches(requisite: &[Segments], here: &Segments) -> bool {
    let includes = |place: &Segments| place.iter().all(|(key, value)| here.get(key) == Some(value));
    requisite.is_empty() || requisite.iter().any(includes)
}

#[derive(Debug, PartialEq, Eq)]
pub enum Publish {
    Already,
    Record(Attachment),
}

/// ATT-2: unless both allow several nodes, the volume goes to a second only after the first gave it back.
pub fn publish(want: &PublishVolume, have: &VolumeRecord, node: &NamedNode) -> Result<Publish> {
    fits(&want.id, &want.capability.access, have)?;
    let id = want.id.clone();
    let mode = want.capability.mode;
    let new = Attachment { mode, capability: want.capability.digest(), read_only: want.read_only };
    match have.published.get(&node.id) {
        Some(old) if *old == new => return Ok(Publish::Already),
        Some(_) => return Err(VolumeError::PublishedDifferently { id }),
        None if !reaches(std::slice::from_ref(&have.topology), &node.topology) => {
            return Err(VolumeError::WrongPlace { id, node: node.id.clone() });
        }
        None => {}
    }
    match have.published.iter().find(|(_, old)| excludes(old, &new)) {
        Some((node, _)) => Err(VolumeError::PublishedElsewhere { id, node: node.clone() }),
        None => Ok(Publish::Record(new)),
    }
}

/// Whether a volume that one node has cannot go to another as well.
fn excludes(old: &Attachment, new: &Attachment) -> bool {
    let writes = |a: &Attachment| !a.read_only && !a.mode.read_only();
    let one_writer = old.mode == Mode::NodesSingleWriter || new.mode == Mode::NodesSingleWriter;
    let both_write = writes(old) && writes(new);
    !old.mode.spans_nodes() || !new.mode.spans_nodes() || (one_writer && both_write)
}

/// Whether the volume was created for this kind of access. Yields the filesystem for mounts.
pub fn fits(id: &VolumeId, access: &AccessType, have: &VolumeRecord) -> Result<Option<FsType>> {
    let beyond = |what| VolumeError::Beyond { id: id.clone(), what };
    match (access, have.access.filesystem) {
        (AccessType::Block, _) if have.access.block => Ok(None),
        (AccessType::Block, _) => Err(beyond("block access")),
        (AccessType::Mount { .. }, None) => Err(beyond("a filesystem")),
        (AccessType::Mount { fs: Some(fs), .. }, Some(made)) if *fs != made => Err(beyond("this filesystem")),
        (AccessType::Mount { .. }, made) => Ok(made),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Stage {
    Already,
    Block(Staging),
    Mount(Staging, FsType),
    /// Bind the filesystem that another node of this machine has mounted.
    Share {
        from: PathBuf,
        staging: Staging,
    },
}

pub fn stage(want: &StageVolume, have: &VolumeRecord, seen: &Seen, node: &str) -> Result<Stage> {
    let id = || want.id.clone();
    let fs = fits(&want.id, &want.capability.access, have)?;
    let published = have.published.get(node);
    let published = published.ok_or_else(|| VolumeError::NotPublished { id: id() })?;
    refuse_taken(&want.id, seen)?;
    let new = Staging {
        path: want.path.clone(),
        block: fs.is_none(),
        read_only: published.read_only || want.capability.read_only(),
        capability: want.capability.digest(),
    };
    if is_staged(&want.id, &new, have, seen, node)? {
        return Ok(Stage::Already);
    }
    if elsewhere(have, seen, node).next().is_some() {
        return stage_beside(&want.id, new, have, seen, node);
    }
    let Some(fs) = fs else {
        return match seen.uses_besides(&want.path).next() {
            None => Ok(Stage::Block(new)),
            Some(path) => {
                Err(VolumeError::InUse { id: id(), how: format!("mounted at `{}`", path.display()) })
            }
        };
    };
    mount_again(&want.id, new, fs, seen)
}

/// A filesystem that is mounted elsewhere, because its staging mount was taken off by hand, is neither checked nor
/// mounted a second time: it is bound from there.
fn mount_again(id: &VolumeId, new: Staging, fs: FsType, seen: &Seen) -> Result<Stage> {
    match seen.whole() {
        None => Ok(Stage::Mount(new, fs)),
        Some(mount) if seen.is_hidden(mount) => {
            let path = mount.target.display();
            let how = format!(
                "mounted at `{path}`, and another mount hides it; `findmnt` shows which, unmount that first"
            );
            Err(VolumeError::InUse { id: id.clone(), how })
        }
        Some(mount) if new.read_only || !mount.read_only() => {
            Ok(Stage::Share { from: mount.target.clone(), staging: new })
        }
        Some(mount) => {
            let how = format!("mounted read-only at `{}`; unpublish it there first", mount.target.display());
            Err(VolumeError::InUse { id: id.clone(), how })
        }
    }
}

/// What users of a volume see must not become another's while they see it.
fn refuse_taken(id: &VolumeId, seen: &Seen) -> Result<()> {
    match &seen.taken {
        Some(taken) => Err(VolumeError::DeviceTaken { id: id.clone(), why: taken.describe() }),
        None => Ok(()),
    }
}

/// Where the kernel has to be asked before a volume is staged or published at a path.
pub fn places<'a>(have: &'a VolumeRecord, asked: &'a Path) -> BTreeSet<&'a Path> {
    have.staged.values().map(|staged| staged.path.as_path()).chain([asked]).collect()
}

/// Whether a staging is in force as it is wanted. Another one, or another volume at its path, is in the way.
pub fn is_staged(id: &VolumeId, new: &Staging, have: &VolumeRecord, seen: &Seen, node: &str) -> Result<bool> {
    match (staged_at(have, seen, node), seen.owner_at(&new.path)) {
        (Some(old), _) if old == new => Ok(true),
        (Some(old), _) if old.path == new.path => Err(VolumeError::StagedDifferently { id: id.clone() }),
        (Some(old), _) => {
            Err(VolumeError::InUse { id: id.clone(), how: format!("staged at `{}`", old.path.display()) })
        }
        // Names of devices are reused after a reboot: a mount at the right path proves nothing.
        (None, Some(_)) => {
            let what = "a mount point of something else";
            Err(VolumeError::Foreign { path: new.path.clone(), what })
        }
        (None, None) => Ok(false),
    }
}

/// The group to give a staged volume to.
pub fn group(want: &StageVolume, have: &VolumeRecord, node: &str) -> Option<u32> {
    let writable = have.published.get(node).is_some_and(|published| !published.read_only);
    want.capability.group().filter(|_| writable)
}

/// One kernel serves all nodes of this machine: the device is attached once and its filesystem mounted once, so
/// a further node joins what is there.
fn stage_beside(id: &VolumeId, new: Staging, have: &VolumeRecord, seen: &Seen, node: &str) -> Result<Stage> {
    let mut others = elsewhere(have, seen, node).map(|(_, other)| other);
    if others.clone().any(|other| other.block != new.block) {
        return Err(VolumeError::InUse { id: id.clone(), how: "staged for another kind of access".into() });
    }
    let allows_writes = |other: &Staging| match other.block {
        true => !other.read_only,
        false => seen.at(&other.path).is_some_and(|mount| !mount.read_only()),
    };
    match others.find(|other| new.read_only || allows_writes(other)) {
        None => Err(VolumeError::ReadOnlyElsewhere { id: id.clone() }),
        Some(_) if new.block => Ok(Stage::Block(new)),
        Some(other) => Ok(Stage::Share { from: other.path.clone(), staging: new }),
    }
}

/// The staging that is in force on a node.
pub fn staged_at<'a>(have: &'a VolumeRecord, seen: &Seen, node: &str) -> Option<&'a Staging> {
    have.staged.get(node).filter(|staged| in_force(staged, seen))
}

/// Stagings in force on other nodes of this machine.
pub fn elsewhere<'a>(
    have: &'a VolumeRecord,
    seen: &'a Seen,
    node: &'a str,
) -> impl Iterator<Item = (&'a String, &'a Staging)> + Clone {
    have.staged.iter().filter(move |(holder, staged)| *holder != node && in_force(staged, seen))
}

/// Block volumes put nothing on the staging path; being attached is all there is.
pub fn in_force(staged: &Staging, seen: &Seen) -> bool {
    match staged.block {
        true => seen.device.is_some(),
        false => seen.owner_at(&staged.path) == Some(Owner::Filesystem),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstUse {
    Format,
    /// Replace the image by an empty one, then format.
    BeginAgain,
    /// Give the copy an identity of its own, check, then mount.
    Renew,
    /// Check, then mount.
    Mount,
}

/// NODE-2: what may be done to a device before it is mounted.
///
/// An empty probe alone is no licence to format: a failing disk and a workload with its own format look
/// empty, too. So the record has to agree that no workload ever had the volume. The reverse holds for a
/// filesystem found while the record says `Formatting`: mkfs was cut short, the superblock it leaves passes
/// the probe, and as the volume is handed out only after `Formatted` is on disk, nobody's data is lost by
/// making it anew.
pub fn first_use(
    id: &VolumeId,
    have: Contents,
    probe: &Content,
    fs: FsType,
    read_only: bool,
) -> Result<FirstUse> {
    let holds = |found: String| VolumeError::HoldsData { id: id.clone(), found, wanted: fs.as_str() };
    match (have, probe) {
        (Contents::Blank, Content::Empty) | (Contents::Formatting(_), _) if read_only => {
            Err(VolumeError::Unformatted { id: id.clone() })
        }
        (Contents::Blank | Contents::Formatting(_), Content::Empty) => Ok(FirstUse::Format),
        (Contents::Formatting(_), Content::Filesystem(_) | Content::Other(_)) => Ok(FirstUse::BeginAgain),
        (Contents::Copied(_) | Contents::Formatted(_), Content::Empty) => {
            Err(VolumeError::DataLoss { id: id.clone() })
        }
        (Contents::Raw, Content::Empty) => Err(holds("whatever a block user wrote".into())),
        (Contents::Copied(_), Content::Filesystem(found)) if found == fs.as_str() && fs.is_unique() => {
            Ok(FirstUse::Renew)
        }
        (_, Content::Filesystem(found)) if found == fs.as_str() => Ok(FirstUse::Mount),
        (_, Content::Filesystem(found)) => Err(holds(format!("`{found}`"))),
        (_, Content::Other(found)) => Err(holds(found.clone())),
    }
}

/// The group to give a volume to before a target shows it, which may be another than when it was staged.
pub fn target_group(want: &NodePublishVolume, have: &VolumeRecord, node: &str) -> Option<u32> {
    let writable = have.staged.get(node).is_some_and(|staged| !staged.read_only);
    want.capability.group().filter(|_| writable && !want.read_only)
}

#[derive(Debug, PartialEq, Eq)]
pub enum NodePublish {
    Already,
    /// Bind the staged filesystem onto a directory.
    Directory {
        read_only: bool,
    },
    /// Bind the device onto a file.
    Device {
        device: PathBuf,
    },
}

/// Whether the volume was never staged at the path, or what was staged there has gone.
fn not_staged(want: &NodePublishVolume, have: &VolumeRecord, node: &str) -> VolumeError {
    let (id, path) = (want.id.clone(), want.staging.clone());
    match have.staged.get(node).filter(|staged| staged.path == path) {
        Some(_) => VolumeError::StagingLost { id, path },
        None => VolumeError::NotStaged { id, path },
    }
}

/// The staging to repeat before a publish, where the one on record has provably not ended: the image is still attached,
/// which every unstaging undoes, and nothing is mounted at the staging path.
pub fn restage(
    want: &NodePublishVolume,
    have: &VolumeRecord,
    seen: &Seen,
    node: &str,
) -> Option<StageVolume> {
    let staged = have.staged.get(node).filter(|staged| staged.path == want.staging && !staged.block)?;
    let same = staged.capability == want.capability.digest();
    let lost = seen.device.is_some() && seen.at(&staged.path).is_none();
    (same && lost).then(|| StageVolume {
        id: want.id.clone(),
        path: staged.path.clone(),
        capability: want.capability.clone(),
    })
}

pub fn node_publish(
    want: &NodePublishVolume,
    have: &VolumeRecord,
    seen: &Seen,
    node: &str,
) -> Result<NodePublish> {
    let id = || want.id.clone();
    let block = fits(&want.id, &want.capability.access, have)?.is_none();
    refuse_taken(&want.id, seen)?;
    let staged =
        staged_at(have, seen, node).filter(|staged| staged.path == want.staging && staged.block == block);
    let (Some(staged), Some(device)) = (staged, &seen.device) else {
        return Err(not_staged(want, have, node));
    };
    let read_only = want.read_only || want.capability.read_only() || staged.read_only;
    // Only the loop device can refuse writes; a read-only mount of its device file does not.
    if block && read_only && !staged.read_only {
        return Err(VolumeError::WritableDevice { id: id() });
    }
    let ours = if block { Owner::Device } else { Owner::Filesystem };
    if let Some(mount) = seen.at(&want.target) {
        return match seen.owner_at(&want.target) {
            Some(owner) if owner == ours && (block || mount.read_only() == read_only) => {
                Ok(NodePublish::Already)
            }
            Some(Owner::Filesystem | Owner::Device) => Err(VolumeError::PublishedDifferently { id: id() }),
            Some(Owner::Foreign) | None => {
                let what = "a mount point of something else";
                Err(VolumeError::Foreign { path: want.target.clone(), what })
            }
        };
    }
    if want.capability.mode == Mode::SingleWriter
        && let Some(other) = seen.other_target(&want.staging, &want.target)
    {
        return Err(VolumeError::SecondTarget { id: id(), other: other.to_owned() });
    }
    match block {
        true => Ok(NodePublish::Device { device: device.clone() }),
        false => Ok(NodePublish::Directory { read_only }),
    }
}
