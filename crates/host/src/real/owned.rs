//! Directories that belong to somebody else.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, fsync, mkdirat, openat};
use rustix::io::Errno;

use super::disk::UNFINISHED_DIR;
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
    // Closed to all, and known by this mode to the call that finishes it.
    if have == UNFINISHED_DIR {
        return Ok(false);
    }
    if have.contains(Mode::SVTX | Mode::WOTH) {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn permissions_are_taken_away_but_a_directory_of_all_users_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("dir");
        fs::create_dir(&dir).unwrap();
        let restricted = |have: u32| {
            fs::set_permissions(&dir, Permissions::from_mode(have)).unwrap();
            let changed = restrict(&dir, 0o700).ok();
            (changed, fs::metadata(&dir).unwrap().mode() & 0o7777)
        };
        assert_eq!(restricted(0o700), (Some(false), 0o700));
        assert_eq!(restricted(0o755), (Some(true), 0o700));
        assert_eq!(restricted(0o1755), (Some(true), 0o700));
        assert_eq!(restricted(0o1777), (None, 0o1777), "as /tmp is");
        // The next call that creates it knows it by this mode.
        assert_eq!(restricted(0o1000), (Some(false), 0o1000), "its creation was cut short");
    }
}
