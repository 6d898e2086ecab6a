//! Making a directory tree belong to a group, as the kubelet does for `fsGroup`.
//!
//! The tree belongs to a workload, which may change it at the same time. So it is walked by open directories (`descend`),
//! through no link and across no mount, and what is changed is what was looked at.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chownat, fstat, fsync, openat, syncfs};

use super::descend::{Place, each_below};
use crate::Failpoints;
use crate::disk::{GroupChange, GroupGrant, Walk};

const SET_GROUP_ID: u32 = 0o2000;
const OWNER_READ_WRITE: u32 = 0o600;
const OWNER_ALL: u32 = 0o700;
/// Upstream's masks: owner and group.
const GROUP_READ_WRITE: u32 = 0o660;
const GROUP_READ: u32 = 0o440;
const GROUP_ENTER: u32 = 0o110;

/// What the group may do.
#[derive(Clone, Copy)]
enum Rule {
    /// What the owner may.
    LikeOwner,
    /// At least this, as the kubelet has it; directories can be entered, too.
    AtLeast(u32),
}

pub(super) fn set(dir: &Path, gid: u32) -> io::Result<()> {
    let top = open_top(dir)?;
    if belongs(&fstat(&top)?, gid, Rule::LikeOwner) {
        return Ok(());
    }
    each_below(&top, |place| {
        let named = |e: io::Error| {
            let what = place.below(dir);
            io::Error::new(e.kind(), format!("give `{}` to group {gid}: {e}", what.display()))
        };
        give_place(place, gid, Rule::LikeOwner).map_err(named)
    })?;
    // The top says that all is done, so all has to be on disk before it.
    syncfs(&top)?;
    give(&top, gid, Rule::LikeOwner)?;
    Ok(fsync(&top)?)
}

/// As the kubelet gives a volume to a pod's `fsGroup`.
pub(super) fn grant(dir: &Path, grant: GroupGrant, walk: &Walk, failpoints: &Failpoints) -> io::Result<()> {
    let GroupGrant { gid, change, read_only } = grant;
    let rule = Rule::AtLeast(if read_only { GROUP_READ } else { GROUP_READ_WRITE });
    let top = open_top(dir)?;
    if change == GroupChange::OnRootMismatch && belongs(&fstat(&top)?, gid, rule) {
        return Ok(());
    }
    let mut failed = 0_u64;
    each_below(&top, |place| {
        walk.step()?;
        give_place(place, gid, rule).or_else(|error| {
            if failed == 0 {
                tracing::warn!(path = %place.below(dir).display(), gid, %error, "cannot give a file to the pod's fsGroup");
            }
            failed += 1;
            Ok(kind_of(place))
        })
    })?;
    if failed > 1 {
        tracing::warn!(volume = %dir.display(), gid, failed, "entries that could not be given to the pod's fsGroup");
    }
    syncfs(&top)?;
    failpoints.hit_within("disk.give-to-group.before-top");
    walk.step()?;
    // As upstream has it, this entry is like any other. It is not as it should be then, so the next grant walks again.
    if let Err(error) = give(&top, gid, rule) {
        tracing::warn!(volume = %dir.display(), gid, %error, "cannot give a volume's top directory to the pod's fsGroup");
    }
    Ok(fsync(&top)?)
}

fn open_top(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, dir, flags, Mode::empty())?)
}

fn kind_of(place: &Place<'_>) -> Option<FileType> {
    let file = place.open(OFlags::PATH).ok()??;
    fstat(&file).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

fn give_place(place: &Place<'_>, gid: u32, rule: Rule) -> io::Result<Option<FileType>> {
    place.open(OFlags::PATH)?.map(|file| give(&file, gid, rule)).transpose()
}

fn give(file: impl AsFd, gid: u32, rule: Rule) -> io::Result<FileType> {
    let stat = fstat(&file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    chownat(&file, "", None, Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
    if kind != FileType::Symlink {
        // Afterwards, because a change of owners takes the set-id bits away. A descriptor that was opened for
        // looking only has its mode changed through its name in proc.
        let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        std::fs::set_permissions(name, Permissions::from_mode(wanted_mode(&stat, rule)))?;
    }
    Ok(kind)
}

fn belongs(stat: &Stat, gid: u32, rule: Rule) -> bool {
    stat.st_gid == gid && permissions(stat) == wanted_mode(stat, rule)
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// What is made in a directory belongs to the same group.
fn wanted_mode(stat: &Stat, rule: Rule) -> u32 {
    let mode = permissions(stat);
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    match (rule, directory) {
        (Rule::LikeOwner, true) => mode | (mode & OWNER_ALL) >> 3 | SET_GROUP_ID,
        (Rule::LikeOwner, false) => mode | (mode & OWNER_READ_WRITE) >> 3,
        (Rule::AtLeast(bits), true) => mode | bits | GROUP_ENTER | SET_GROUP_ID,
        (Rule::AtLeast(bits), false) => mode | bits,
    }
}
