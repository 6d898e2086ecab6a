//! The mount table: which filesystem a path shows.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::tree::{FsId, Place};
use crate::kernel::Mount;

/// `/` and `/dev`, which every machine has.
pub(super) const SYSTEM_MOUNTS: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub fs: FsId,
    pub mount: Mount,
}

/// Mounts by age, and their ages by target: looking up a path costs its depth, not the length of the table.
pub(super) struct Table {
    entries: BTreeMap<u64, Entry>,
    by_target: BTreeMap<PathBuf, Vec<u64>>,
    next: u64,
}

impl Default for Table {
    fn default() -> Self {
        let mut table = Self { entries: BTreeMap::new(), by_target: BTreeMap::new(), next: 0 };
        for (fs, device, target, fs_type, source) in [
            (FsId::Root, "254:0", "/", "ext4", "/dev/vda"),
            (FsId::Dev, "0:6", "/dev", "devtmpfs", "devtmpfs"),
        ] {
            table.push(Entry { fs, mount: mount(device, "/", target, &["rw"], fs_type, source) });
        }
        table
    }
}

/// Shorthand for a line of the table.
pub(super) fn mount(
    device: &str,
    root: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &[&str],
    fs_type: &str,
    source: &str,
) -> Mount {
    Mount {
        device: device.into(),
        root: root.as_ref().into(),
        target: target.as_ref().into(),
        options: options.iter().map(ToString::to_string).collect(),
        fs_type: fs_type.into(),
        source: source.into(),
        filesystem_read_only: options.contains(&"ro"),
    }
}

impl Table {
    pub fn push(&mut self, entry: Entry) {
        self.by_target.entry(entry.mount.target.clone()).or_default().push(self.next);
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    pub fn list(&self) -> Vec<Mount> {
        self.entries.values().map(|e| e.mount.clone()).collect()
    }

    pub fn topmost(&self, target: &Path) -> Option<&Entry> {
        self.entries.get(self.by_target.get(target)?.last()?)
    }

    /// The youngest mount at or above a path shows there: it hides every older one.
    pub fn showing(&self, path: &Path) -> Option<&Entry> {
        let ages = path.ancestors().filter_map(|above| self.by_target.get(above)?.last());
        self.entries.get(ages.max()?)
    }

    pub fn locate(&self, path: &Path) -> io::Result<Place> {
        if !path.is_absolute() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{}` is relative", path.display()),
            ));
        }
        let entry = self.showing(path).ok_or(Errno::ENOENT)?;
        let Mount { root, target, .. } = &entry.mount;
        let rest = path.strip_prefix(target).unwrap_or(Path::new(""));
        let inner = if rest.as_os_str().is_empty() { root.clone() } else { root.join(rest) };
        Ok(Place { fs: entry.fs, inner, read_only: entry.mount.read_only() })
    }

    /// Lets a filesystem refuse writes wherever it is mounted.
    pub fn fail(&mut self, fs: FsId) {
        for entry in self.entries.values_mut().filter(|entry| entry.fs == fs) {
            entry.mount.filesystem_read_only = true;
        }
    }

    /// Adds what [`crate::kernel::Kernel::bind_confined`] adds to the topmost mount at a target.
    pub fn confine(&mut self, target: &Path) {
        let newest = self.by_target.get(target).and_then(|ages| ages.last());
        let Some(entry) = newest.and_then(|age| self.entries.get_mut(age)) else { return };
        for option in ["nosuid", "nodev"] {
            if !entry.mount.options.iter().any(|given| given == option) {
                entry.mount.options.push(option.into());
            }
        }
    }

    /// Takes the topmost mount off a target. `EBUSY` while something is mounted inside it.
    pub fn pop(&mut self, target: &Path) -> Result<(), Errno> {
        let Some(age) = self.by_target.get(target).and_then(|ages| ages.last()).copied() else {
            return Err(Errno::EINVAL);
        };
        let younger = self.entries.range(age + 1..).any(|(_, e)| e.mount.target.starts_with(target));
        if younger {
            return Err(Errno::EBUSY);
        }
        self.entries.remove(&age);
        if let Some(ages) = self.by_target.get_mut(target) {
            ages.pop();
            if ages.is_empty() {
                self.by_target.remove(target);
            }
        }
        Ok(())
    }

    /// Takes every mount off a directory and off what is below it.
    pub fn remove_below(&mut self, dir: &Path) {
        self.entries.retain(|_, entry| !entry.mount.target.starts_with(dir));
        self.by_target.retain(|target, _| !target.starts_with(dir));
    }

    pub fn is_target(&self, path: &Path) -> bool {
        self.by_target.contains_key(path)
    }

    /// Whether any mount shows this filesystem.
    pub fn shows(&self, fs: FsId) -> bool {
        self.entries.values().any(|e| e.fs == fs)
    }

    /// Where any of these filesystems is mounted.
    pub fn targets(&self, systems: &BTreeSet<FsId>) -> Vec<PathBuf> {
        let shown = self.entries.values().filter(|e| systems.contains(&e.fs));
        shown.map(|e| e.mount.target.clone()).collect()
    }

    /// Filesystems visible at a path or below it: what a recursive bind of it keeps in use.
    pub fn below(&self, path: &Path) -> Vec<FsId> {
        let here = self.locate(path).map(|place| place.fs).ok();
        let inside = self.entries.values().filter(|e| e.mount.target.starts_with(path)).map(|e| e.fs);
        here.into_iter().chain(inside).collect()
    }
}
