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

const SET_GROUP_ID: u32 = 0o2000;
const OWNER_READ_WRITE: u32 = 0o600;
const OWNER_ALL: u32 = 0o700;

pub(super) fn set(dir: &Path, gid: u32) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, dir, flags, Mode::empty())?;
    if belongs(&fstat(&top)?, gid) {
        return Ok(());
    }
    let mut pending = vec![PathBuf::from(".")];
    while let Some(path) = pending.pop() {
        let Some(directory) = open(&top, &path, OFlags::DIRECTORY)? else { continue };
        for entry in Dir::new(directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let path = path.join(std::ffi::OsStr::from_bytes(&name));
            let given = give_path(&top, &path, gid);
            let named = |e: io::Error| {
                let what = dir.join(&path);
                io::Error::new(e.kind(), format!("give `{}` to group {gid}: {e}", what.display()))
            };
            if given.map_err(named)? == Some(FileType::Directory) {
                pending.push(path);
            }
        }
    }
    // The top says that all is done, so all has to be on disk before it.
    syncfs(&top)?;
    give(&top, gid)?;
    Ok(fsync(&top)?)
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

fn give_path(top: &OwnedFd, path: &Path, gid: u32) -> io::Result<Option<FileType>> {
    open(top, path, OFlags::PATH)?.map(|file| give(&file, gid)).transpose()
}

fn give(file: impl AsFd, gid: u32) -> io::Result<FileType> {
    let stat = fstat(&file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    chownat(&file, "", None, Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
    if kind != FileType::Symlink {
        // Afterwards, because a change of owners takes the set-id bits away. A descriptor that was opened for
        // looking only has its mode changed through its name in proc.
        let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        std::fs::set_permissions(name, Permissions::from_mode(wanted_mode(&stat)))?;
    }
    Ok(kind)
}

fn belongs(stat: &Stat, gid: u32) -> bool {
    stat.st_gid == gid && permissions(stat) == wanted_mode(stat)
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// The group may do what the owner may; what is made in a directory belongs to the same group.
fn wanted_mode(stat: &Stat) -> u32 {
    let mode = permissions(stat);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => mode | (mode & OWNER_ALL) >> 3 | SET_GROUP_ID,
        _ => mode | (mode & OWNER_READ_WRITE) >> 3,
    }
}
