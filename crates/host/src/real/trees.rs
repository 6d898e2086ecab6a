//! Removing a directory with everything in it.
//!
//! The content was made by somebody else, perhaps to lead us astray, so nothing is reached by a path: every step
//! starts from an open directory, follows no link and enters no other mount.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::mountinfo;
use crate::Failpoints;

/// Starts the name of a directory on its way out.
const MOVED: &str = ".bowline-gone-";
/// How often a directory may be found to have new entries after everything in it went.
const REFILLS_MAX: usize = 16;

/// Missing is success. Anything mounted here or below is `ResourceBusy`, before the first removal.
pub(super) fn remove(path: &Path, failpoints: &Failpoints) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the root directory cannot be removed"));
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match rustix::fs::openat(CWD, parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        parent => File::from(parent?),
    };
    let top = match open_dir(&parent, name) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::XDEV) => return Err(busy(path)),
        top => top?,
    };
    refuse_mounts(&top)?;
    let mut removal = Removal { top, moved: 0 };
    removal.run(parent.as_fd(), name, || failpoints.hit_file("disk.remove-tree.emptied", path))?;
    parent.sync_all()
}

/// A subdirectory itself, never what a link or a mount shows in its place.
fn open_dir(parent: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), within)
}

fn refuse_mounts(top: &OwnedFd) -> io::Result<()> {
    let here = std::fs::read_link(format!("/proc/self/fd/{}", top.as_raw_fd()))?;
    let table = mountinfo::read().map_err(io::Error::other)?;
    match table.iter().find(|mount| mount.target.starts_with(&here)) {
        Some(mount) => Err(busy(&mount.target)),
        None => Ok(()),
    }
}

fn busy(target: &Path) -> io::Error {
    let why = format!("`{}` is a mount point; nothing was removed", target.display());
    io::Error::new(io::ErrorKind::ResourceBusy, why)
}

/// A tree may be deeper than there are stack frames, open files or bytes in a path. So no step goes deeper than
/// one directory below the top: what is further down is moved up first. A removal that was cut short leaves a
/// flatter tree, which the next one removes like any other.
struct Removal {
    top: OwnedFd,
    /// How many directories were moved up so far.
    moved: u64,
}

impl Removal {
    fn run(&mut self, parent: BorrowedFd<'_>, name: &OsStr, emptied: impl Fn()) -> io::Result<()> {
        let mut refills = 0;
        loop {
            let moved = self.moved;
            let mut entries = Dir::read_from(&self.top)?;
            while let Some(entry) = entries.read() {
                self.remove_entry(entry?.file_name())?;
            }
            emptied();
            match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) if self.moved > moved => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) if refills < REFILLS_MAX => refills += 1,
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Removes one entry of the top.
    fn remove_entry(&mut self, name: &CStr) -> io::Result<()> {
        for _ in 0..REFILLS_MAX {
            if is_self(name) || unlink(self.top.as_fd(), name)? {
                return Ok(());
            }
            let mut dir = match open_dir(&self.top, name) {
                Err(Errno::NOENT) => return Ok(()),
                dir => Dir::new(dir?)?,
            };
            while let Some(entry) = dir.read() {
                let entry = entry?;
                self.remove_or_move_up(dir.fd()?, entry.file_name())?;
            }
        }
        Err(Errno::NOTEMPTY.into())
    }

    fn remove_or_move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        if is_self(name) || unlink(dir, name)? {
            return Ok(());
        }
        loop {
            self.moved += 1;
            let free = format!("{MOVED}{}", self.moved);
            let keep = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(dir, name, &self.top, free.as_str(), keep) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // The name is the user's, or one that a removal before this one chose.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Removes a file, a link or an empty directory. False: it is a directory with something in it.
fn unlink(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let removed = match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn is_self(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::real::mounts::{bind, unmount};

    /// Another process may mount something after the look at the table. It is neither entered nor emptied.
    #[test]
    fn a_mount_that_appears_meanwhile_is_not_entered() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let (outside, inside) = (dir.path().join("outside"), dir.path().join("top/a/b/c"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(&inside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        bind(&outside, &inside, false).unwrap();
        let parent = File::open(dir.path()).unwrap();
        let top = open_dir(&parent, "top").unwrap();
        let refused = Removal { top, moved: 0 }.run(parent.as_fd(), OsStr::new("top"), || ());
        let table = mountinfo::read().unwrap();
        let mount = table.iter().rev().find(|mount| mount.target.starts_with(dir.path())).unwrap();
        unmount(&mount.target).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(fs::read(outside.join("kept")).unwrap(), b"x");
    }
}
