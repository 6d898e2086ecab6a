//! Directories that belong to somebody else.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, fsync, mkdirat, openat};
use rustix::io::Errno;

use super::replace::sync_parent;
use crate::disk::Owner;

pub(super) fn create_dir(path: &Path, owner: Owner) -> io::Result<()> {
    // Nobody else gets in before the owner is set.
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(CWD, path, flags, Mode::empty())?;
    // The mode comes last, because a change of owner clears parts of it.
    fchown(&dir, owner.uid.map(Uid::from_raw), owner.gid.map(Gid::from_raw))?;
    fchmod(&dir, Mode::from_raw_mode(owner.mode))?;
    fsync(&dir)?;
    sync_parent(path)
}

/// Takes permissions away; none are ever added.
pub(super) fn restrict(path: &Path, mode: u32) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, path, flags, Mode::empty())?;
    let have = Mode::from_raw_mode(fstat(&file)?.st_mode);
    if have.contains(Mode::SVTX) {
        let why = "every user may create files there (sticky bit)";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}`: {why}", path.display())));
    }
    let allowed = have & Mode::from_raw_mode(mode);
    if have == allowed {
        return Ok(false);
    }
    fchmod(&file, allowed)?;
    fsync(&file)?;
    Ok(true)
}
