//! Files and directories that only the user of this process may open, for callers that may block.
//!
//! The mode is part of the call that creates a file or directory, so others cannot open it in between. What exists
//! is tightened through its own descriptor, and a symbolic link in its place is an error.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};

use super::replace::sync_parent;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What the group and others may do.
const OTHERS: u32 = 0o077;
/// Directories below each other that are tightened; the store has four.
const DEPTH_MAX: u32 = 16;

/// Whatever this process creates without a mode of its own is for its user alone.
pub fn private_by_default() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Creates a directory for this user alone, with the directories above it that are missing. One that exists is
/// tightened; one that belongs to another user is an error and stays as it is.
pub fn private_dir(path: &Path) -> io::Result<()> {
    private_parents(path)?;
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Ok(()) => return sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    tighten_dir(path)
}

/// Creates the missing directories above a path, for this user alone; existing ones are left as they are.
pub fn private_parents(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => DirBuilder::new().recursive(true).mode(DIR_MODE).create(parent),
        None => Ok(()),
    }
}

/// Opens a file for reading and writing; creates it for this user alone, tightens an existing one.
pub fn private_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create(true))
}

/// The same, for writing at the end.
pub fn private_log(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().append(true).create(true))
}

/// Creates a file that must not exist yet, for this user alone.
pub fn new_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Replaces a file in one step, durable on return. The new one is for this user alone from the first moment.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = beside(path);
    // What a crash left there; its content and its mode do not matter.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let mut file = new_private_file(&fresh)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    sync_parent(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// Takes from group and others what they may do with a directory, the directories below it and their files. Links
/// are left alone, and another filesystem is not entered. Missing is success.
pub fn tighten(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => {
            tighten_dir(path)?;
            tighten_below(path, found.dev(), DEPTH_MAX)
        }
        Ok(found) if found.is_file() => tighten_file(path, &found),
        Ok(_) => Ok(()),
    }
}

fn tighten_below(dir: &Path, device: u64, depth: u32) -> io::Result<()> {
    if depth == 0 {
        return Err(named(dir, "has too many directories below each other"));
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if found.is_dir() && found.dev() == device {
            tighten_dir(&path)?;
            tighten_below(&path, device, depth - 1)?;
        } else if found.is_file() {
            tighten_file(&path, &found)?;
        }
    }
    Ok(())
}

fn tighten_file(path: &Path, found: &fs::Metadata) -> io::Result<()> {
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    tighten_open(path, &File::from(file))
}

fn tighten_dir(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = File::from(openat(CWD, path, flags, Mode::empty())?);
    tighten_open(path, &dir)
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let file = options.mode(FILE_MODE).custom_flags(nofollow).open(path)?;
    tighten_open(path, &file)?;
    Ok(file)
}

/// A file of another user is refused: that user could change it or open it to everybody again.
fn tighten_open(path: &Path, file: &File) -> io::Result<()> {
    let (found, user) = (file.metadata()?, rustix::process::geteuid().as_raw());
    if found.uid() != user {
        let why = format!("belongs to user {}, not to user {user} of this process", found.uid());
        return Err(named(path, &why));
    }
    let mode = found.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    Ok(fchmod(file, Mode::from_raw_mode(mode & !OTHERS & 0o7777))?)
}

fn named(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("`{}` {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn new_files_and_directories_are_for_this_user_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("a/b");
        private_dir(&dir).unwrap();
        assert_eq!((mode(&dir), mode(&scratch.path().join("a"))), (0o700, 0o700));
        write_private(&dir.join("key"), b"1").unwrap();
        private_file(&dir.join("file")).unwrap();
        private_log(&dir.join("log")).unwrap();
        for name in ["key", "file", "log"] {
            assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
        }
        assert!(new_private_file(&dir.join("key")).is_err());
    }

    #[test]
    fn existing_ones_are_tightened() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        fs::create_dir_all(dir.join("below")).unwrap();
        fs::write(dir.join("below/journal"), "secret").unwrap();
        fs::write(dir.join("program"), "").unwrap();
        fs::write(scratch.path().join("outside"), "").unwrap();
        symlink("../outside", dir.join("link")).unwrap();
        set_mode(&dir, 0o755);
        set_mode(&dir.join("below"), 0o777);
        set_mode(&dir.join("below/journal"), 0o644);
        set_mode(&dir.join("program"), 0o755);
        set_mode(&scratch.path().join("outside"), 0o644);
        tighten(&dir).unwrap();
        assert_eq!((mode(&dir), mode(&dir.join("below"))), (0o700, 0o700));
        assert_eq!((mode(&dir.join("below/journal")), mode(&dir.join("program"))), (0o600, 0o700));
        assert_eq!(mode(&scratch.path().join("outside")), 0o644, "links are not followed");
        tighten(&dir.join("nowhere")).unwrap();
    }

    #[test]
    fn what_belongs_to_another_user_or_is_a_link_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, file) = (scratch.path().join("dir"), scratch.path().join("file"));
        fs::create_dir(&dir).unwrap();
        fs::write(&file, "").unwrap();
        symlink(&dir, scratch.path().join("dir-link")).unwrap();
        symlink(&file, scratch.path().join("file-link")).unwrap();
        assert!(private_dir(&scratch.path().join("dir-link")).is_err());
        assert!(private_file(&scratch.path().join("file-link")).is_err());
        for path in [&dir, &file] {
            chown(path, Some(65_534), None).unwrap();
            set_mode(path, 0o755);
        }
        for refused in [private_dir(&dir), private_file(&file).map(drop), tighten(&dir)] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("belongs to user 65534, not to user 0"), "{text}");
        }
        assert_eq!((mode(&dir), mode(&file)), (0o755, 0o755), "and left as it was");
    }
}
