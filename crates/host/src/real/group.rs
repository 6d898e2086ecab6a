//! Making a directory tree belong to a group, as the kubelet does for `fsGroup`.
//!
//! The tree belongs to a workload, which may change it at the same time. So every path is resolved by the kernel
//! below the top directory, through no link and across no mount, and what is changed is what was looked at.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, chownat, fstat, fsync, openat,
    openat2, syncfs,
};
use rustix::io::Errno;

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
    each_below(&top, |path| {
        let named = |e: io::Error| {
            let what = dir.join(path);
            io::Error::new(e.kind(), format!("give `{}` to group {gid}: {e}", what.display()))
        };
        give_path(&top, path, gid, Rule::LikeOwner).map_err(named)
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
    each_below(&top, |path| {
        walk.step()?;
        give_path(&top, path, gid, rule).or_else(|error| {
            if failed == 0 {
                tracing::warn!(path = %dir.join(path).display(), gid, %error, "cannot give a file to the pod's fsGroup");
            }
            failed += 1;
            Ok(kind_of(&top, path))
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

/// Calls `change` with every path below the top, parents first; it returns what the path was, if it is still there.
fn each_below(
    top: &OwnedFd,
    mut change: impl FnMut(&Path) -> io::Result<Option<FileType>>,
) -> io::Result<()> {
    let mut pending = vec![PathBuf::from(".")];
    while let Some(path) = pending.pop() {
        let Some(directory) = open(top, &path, OFlags::DIRECTORY)? else { continue };
        for entry in Dir::new(directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let path = path.join(std::ffi::OsStr::from_bytes(&name));
            if change(&path)? == Some(FileType::Directory) {
                pending.push(path);
            }
        }
    }
    Ok(())
}

fn kind_of(top: &OwnedFd, path: &Path) -> Option<FileType> {
    let file = open(top, path, OFlags::PATH).ok()??;
    fstat(&file).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Opens a path below the top; nothing for one that has gone, or that is on another mount.
fn open(top: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(top, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn give_path(top: &OwnedFd, path: &Path, gid: u32, rule: Rule) -> io::Result<Option<FileType>> {
    open(top, path, OFlags::PATH)?.map(|file| give(&file, gid, rule)).transpose()
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
