//! Replacing a file in one step, and leaving nothing behind when that is interrupted.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::Failpoints;
use crate::disk::unfinished_name;

/// Writes in flight. A name is derived from its target, so that a later write takes over what a crash left;
/// hence two writers of one target take turns.
#[derive(Default)]
pub(super) struct Replacer {
    busy: Mutex<BTreeSet<PathBuf>>,
    freed: Condvar,
    failpoints: Failpoints,
}

impl Replacer {
    pub fn new(failpoints: Failpoints) -> Self {
        Self { failpoints, ..Self::default() }
    }

    /// Lets `fill` write a new file, then puts it at `path`; durable when it returns.
    pub fn replace(
        &self,
        path: &Path,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = path.file_name().ok_or_else(|| not_a_file(path))?;
        let unfinished = path.with_file_name(unfinished_name(name));
        let _turn = self.take_turn(&unfinished);
        let point = |name: &str| self.failpoints.hit_file(name, path);
        let written = write_new(&unfinished, mode, |file| {
            point("disk.replace.created");
            fill(file)?;
            point("disk.replace.filled");
            Ok(())
        });
        let placed = written.and_then(|()| {
            point("disk.replace.synced");
            fs::rename(&unfinished, path)
        });
        if placed.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        placed?;
        point("disk.replace.renamed");
        sync_parent(path)
    }

    fn take_turn(&self, path: &Path) -> Turn<'_> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while !busy.insert(path.into()) {
            busy = self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { replacer: self, path: path.into() }
    }
}

struct Turn<'a> {
    replacer: &'a Replacer,
    path: PathBuf,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.replacer.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
        self.replacer.freed.notify_all();
    }
}

fn write_new(path: &Path, mode: u32, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    // Neither the umask nor a file left by a crash decides the mode.
    file.set_permissions(Permissions::from_mode(mode))?;
    fill(&mut file)?;
    file.sync_all()
}

/// Makes the names in the directory of `path` durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn not_a_file(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` does not name a file", path.display()))
}
