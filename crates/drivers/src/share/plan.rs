//! Decisions: what was asked and what is there → what to do. No I/O, so each is a table in `plan/tests.rs`.

use super::mounts::Seen;
use super::parse::{CreateVolume, NodePublishVolume};
use super::record::{Phase, ShareRecord};
use crate::capacity::Range;
use crate::error::VolumeError;
use crate::id::VolumeId;
use crate::targets::foreign;

#[cfg(test)]
mod tests;

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug, PartialEq, Eq)]
pub enum Create {
    Make(ShareRecord),
    /// A crash left it half made.
    Resume(ShareRecord),
    Reuse(ShareRecord),
}

pub fn create(want: &CreateVolume, have: Option<&ShareRecord>, total: u64) -> Result<Create> {
    let capacity = want.range.required;
    match have {
        Some(have) => {
            // The name is compared because one name could be chosen to equal the hashed id of another.
            let differences = [
                (have.inline.is_some(), "life: it is an inline volume"),
                (want.name != have.name, "name"),
                (!want.range.admits(have.capacity), "size"),
                (want.directory != have.directory, "parameter"),
            ];
            match differences.into_iter().find(|(differs, _)| *differs) {
                Some((_, what)) => Err(VolumeError::Incompatible { name: want.name.clone(), what }),
                None => go_on(&want.id, have),
            }
        }
        None if capacity > total => Err(VolumeError::TooLarge { want: capacity, total }),
        None => Ok(Create::Make(ShareRecord::new(&want.name, capacity, want.directory, None))),
    }
}

/// Provides a volume that nobody created before it is published.
pub fn inline(want: &NodePublishVolume, have: Option<&ShareRecord>) -> Result<Create> {
    let id = || want.id.clone();
    let Some(directory) = want.inline else { return Err(VolumeError::NotFound { id: id().to_string() }) };
    let target = Some(&want.target);
    match have {
        None => Ok(Create::Make(ShareRecord::new(want.id.as_str(), 0, directory, target.cloned()))),
        Some(have) => match &have.inline {
            None => Err(VolumeError::Beyond { id: id(), what: "inline use: a claim has it" }),
            Some(other) if *other != want.target => {
                Err(VolumeError::SecondTarget { id: id(), other: other.clone() })
            }
            Some(_) if have.directory != directory => Err(VolumeError::PublishedDifferently { id: id() }),
            Some(_) => go_on(&want.id, have),
        },
    }
}

fn go_on(id: &VolumeId, have: &ShareRecord) -> Result<Create> {
    match have.phase {
        Phase::Creating => Ok(Create::Resume(have.clone())),
        Phase::Ready => Ok(Create::Reuse(have.clone())),
        Phase::Deleting => Err(VolumeError::Deleting { id: id.clone() }),
    }
}

/// The size to write down. Nothing else changes: a directory grows by itself.
pub fn expand(range: Range, have: &ShareRecord, total: u64) -> Result<u64> {
    let size = range.required.max(have.capacity);
    let refuse = |why: String| Err(VolumeError::OutOfRange { why });
    if range.limit != 0 && size > range.limit {
        return refuse(format!("the volume has {size} bytes, the limit is {}", range.limit));
    }
    if size > have.capacity && size > total {
        return refuse(format!("{size} bytes requested, the pool has {total}"));
    }
    Ok(size)
}

#[derive(Debug, PartialEq, Eq)]
pub enum Publish {
    Already,
    /// Write the record, then bind.
    Bind {
        record: ShareRecord,
        read_only: bool,
    },
}

pub fn publish(want: &NodePublishVolume, have: &ShareRecord, seen: &Seen) -> Result<Publish> {
    let id = || want.id.clone();
    if have.inline.is_some() && want.inline.is_none() {
        return Err(VolumeError::Beyond { id: id(), what: "a claim: it is an inline volume" });
    }
    let read_only = want.read_only || want.capability.read_only;
    let only = want.capability.one_target().then(|| want.target.clone());
    let group = want.capability.group.or(have.group);
    let record = ShareRecord { only, group, ..have.clone() };
    if let Some(mount) = seen.at(&want.target) {
        // A repeat that names no group accepts the one that is there.
        let same = record == *have && mount.read_only() == read_only;
        return match seen.is_share(mount) {
            true if same => Ok(Publish::Already),
            true => Err(VolumeError::PublishedDifferently { id: id() }),
            false => Err(foreign(&want.target)),
        };
    }
    if seen.covered() {
        return Err(foreign(seen.data()));
    }
    let only = have.only.as_deref().filter(|only| *only != want.target && seen.is_at(only));
    let other = seen.other_target(&want.target);
    match (only, other, have.group) {
        (Some(other), _, _) => Err(VolumeError::SecondTarget { id: id(), other: other.into() }),
        (None, Some(other), _) if record.only.is_some() => {
            Err(VolumeError::SecondTarget { id: id(), other: other.into() })
        }
        // The group is the directory's and not the target's: a second one would lock out the first.
        (None, Some(other), Some(group)) if record.group != Some(group) => {
            Err(VolumeError::GroupInUse { id: id(), group, other: other.into() })
        }
        (None, _, _) => Ok(Publish::Bind { record, read_only }),
    }
}

/// Refuses as long as the volume shows somewhere, or something in it.
pub fn delete(id: &VolumeId, seen: &Seen) -> Result<()> {
    let in_use = |how: String| Err(VolumeError::InUse { id: id.clone(), how });
    match (seen.shown(), seen.inside()) {
        (_, Some(path)) => in_use(format!("something is mounted in it at `{}`", path.display())),
        (Some(path), None) => in_use(format!("published at `{}`", path.display())),
        (None, None) => Ok(()),
    }
}
