//! Walking a directory tree that a workload may change at the same time.
//!
//! A tree may be deeper than there are open files or bytes in a path. So each step starts from the one directory that is
//! open, through no link and across no mount: down by a name, and up by `..`, which counts only if it leads where the walk
//! came from. A workload that moved the directory meanwhile could lead it out of the tree otherwise. Then the way is
//! taken once more from the top, and what is no longer there is left out.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

/// Directories of a path that a message shows, from the top.
const SHOWN: usize = 32;

/// Where the walk is.
pub(super) struct Place<'a> {
    dir: &'a OwnedFd,
    name: &'a CStr,
    levels: &'a [Level],
}

/// A directory that the walk is in, or below.
struct Level {
    name: CString,
    identity: (u64, u64),
    /// Directories in it that are still to be entered.
    below: Vec<CString>,
}

/// From the top to where the walk is.
#[derive(Default)]
struct Levels {
    list: Vec<Level>,
    /// A directory that a workload moved below itself, by way of another one, would be entered for ever.
    inside: HashSet<(u64, u64)>,
}

impl Levels {
    fn push(&mut self, level: Level) {
        self.inside.insert(level.identity);
        self.list.push(level);
    }

    fn truncate(&mut self, left: usize) {
        for level in self.list.drain(left..) {
            self.inside.remove(&level.identity);
        }
    }
}

impl Place<'_> {
    /// Opens what is here; nothing if it has gone, or is on another mount.
    pub fn open(&self, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        open(self.dir, self.name, flags, ResolveFlags::BENEATH)
    }

    /// For messages; of a path that would fill them, the beginning and the end.
    pub fn below(&self, top: &Path) -> PathBuf {
        let names = self.levels.iter().skip(1).map(|level| OsStr::from_bytes(level.name.to_bytes()));
        let mut path: PathBuf = top.iter().chain(names.take(SHOWN)).collect();
        if self.levels.len() > SHOWN + 1 {
            path.push("...");
        }
        path.join(OsStr::from_bytes(self.name.to_bytes()))
    }
}

/// Calls `visit` for everything below the top, parents first; it returns what it found, if that is still there.
pub(super) fn each_below(
    top: &OwnedFd,
    mut visit: impl FnMut(&Place<'_>) -> io::Result<Option<FileType>>,
) -> io::Result<()> {
    let mut here = top.try_clone()?;
    let mut levels = Levels::default();
    enter(&here, CString::default(), &mut levels, &mut visit)?;
    while let Some(level) = levels.list.last_mut() {
        if let Some(name) = level.below.pop() {
            if let Some(dir) = open(&here, &name, OFlags::DIRECTORY, ResolveFlags::BENEATH)?
                && !levels.inside.contains(&identity(&dir)?)
            {
                here = dir;
                enter(&here, name, &mut levels, &mut visit)?;
            }
            continue;
        }
        levels.truncate(levels.list.len() - 1);
        if !levels.list.is_empty() {
            here = up(&here, top, &mut levels)?;
        }
    }
    Ok(())
}

/// Visits what is in a directory, and remembers the directories among it.
fn enter(
    here: &OwnedFd,
    name: CString,
    levels: &mut Levels,
    visit: &mut impl FnMut(&Place<'_>) -> io::Result<Option<FileType>>,
) -> io::Result<()> {
    levels.push(Level { name, identity: identity(here)?, below: Vec::new() });
    let mut below = Vec::new();
    for entry in Dir::read_from(here)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if visit(&Place { dir: here, name, levels: &levels.list })? == Some(FileType::Directory) {
            below.push(name.to_owned());
        }
    }
    if let Some(level) = levels.list.last_mut() {
        level.below = below;
    }
    Ok(())
}

/// The directory of the last level, from one that is or was in it. Levels that are no longer there are dropped.
fn up(here: &OwnedFd, top: &OwnedFd, levels: &mut Levels) -> io::Result<OwnedFd> {
    let parent = open(here, c"..", OFlags::DIRECTORY, ResolveFlags::empty())?;
    if let (Some(parent), Some(level)) = (parent, levels.list.last())
        && identity(&parent)? == level.identity
    {
        return Ok(parent);
    }
    let mut found = top.try_clone()?;
    let mut left = 1;
    for level in levels.list.iter().skip(1) {
        match open(&found, &level.name, OFlags::DIRECTORY, ResolveFlags::BENEATH)? {
            Some(dir) if identity(&dir)? == level.identity => found = dir,
            _ => break,
        }
        left += 1;
    }
    levels.truncate(left);
    Ok(found)
}

/// Nothing for what has gone, is a link, or is on another mount.
fn open(dir: impl AsFd, name: &CStr, flags: OFlags, within: ResolveFlags) -> io::Result<Option<OwnedFd>> {
    let within = within | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), within) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn identity(dir: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, openat};

    use super::*;

    fn visited(top: &Path, mut meanwhile: impl FnMut(&str)) -> Vec<String> {
        let dir = openat(CWD, top, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut visited = Vec::new();
        each_below(&dir, |place| {
            let path = place.below(Path::new("")).display().to_string();
            meanwhile(&path);
            visited.push(path);
            let file = place.open(OFlags::PATH)?;
            Ok(file.map(|file| FileType::from_raw_mode(fstat(&file).unwrap().st_mode)))
        })
        .unwrap();
        visited.sort_unstable();
        visited
    }

    /// A directory that is moved up while the walk is in it would lead out of the tree.
    #[test]
    fn a_moved_directory_does_not_lead_out() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("top");
        for dir in ["top/a/b/c/d", "top/z", "top/a/y"] {
            fs::create_dir_all(scratch.path().join(dir)).unwrap();
        }
        fs::create_dir(scratch.path().join("outside")).unwrap();
        let seen = visited(&top, |path| {
            if path == "a/b/c/d" {
                fs::rename(top.join("a/b/c"), scratch.path().join("c")).unwrap();
            }
        });
        assert_eq!(seen, ["a", "a/b", "a/b/c", "a/b/c/d", "a/y", "z"]);
    }

    /// Two directories that are moved into each other in turns.
    #[test]
    fn a_directory_above_the_walk_is_not_entered_again() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("top");
        fs::create_dir_all(top.join("a/b/in")).unwrap();
        let seen = visited(&top, |path| {
            if path == "a/b/in" {
                fs::rename(top.join("a/b"), top.join("b")).unwrap();
                fs::remove_dir(top.join("b/in")).unwrap();
                fs::rename(top.join("a"), top.join("b/in")).unwrap();
            }
        });
        assert_eq!(seen, ["a", "a/b", "a/b/in"]);
    }

    /// What was above the walk has gone; what is beside it is walked all the same.
    #[test]
    fn levels_that_are_gone_are_left_out() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("top");
        for dir in ["top/a/b/c/d", "top/z/in"] {
            fs::create_dir_all(scratch.path().join(dir)).unwrap();
        }
        let seen = visited(&top, |path| {
            if path == "a/b/c/d" {
                fs::rename(top.join("a/b/c"), scratch.path().join("c")).unwrap();
                fs::remove_dir(top.join("a/b")).unwrap();
            }
        });
        assert_eq!(seen, ["a", "a/b", "a/b/c", "a/b/c/d", "z", "z/in"]);
    }

    #[test]
    fn long_paths_are_shown_in_part() {
        let scratch = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", 40).collect();
        fs::create_dir_all(scratch.path().join(&deep)).unwrap();
        let seen = visited(scratch.path(), |_| ());
        assert_eq!(seen.len(), 40);
        assert!(seen.contains(&format!("{}.../d", "d/".repeat(SHOWN))), "{seen:?}");
    }
}
