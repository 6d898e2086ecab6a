//! What the kernel says about one volume: where its directory shows in the mount table.

use std::path::{Path, PathBuf};

use bowline_host::Host;
use bowline_host::kernel::Mount;

use crate::error::{During, VolumeError};

/// One look at the mount table.
#[derive(Debug)]
pub struct Seen {
    table: Vec<Mount>,
    /// The directory of the volume.
    data: PathBuf,
    /// The same directory as mounts of it name it: a filesystem, and a path within.
    device: String,
    root: PathBuf,
}

impl Seen {
    pub async fn look(host: &Host, data: PathBuf) -> Result<Self, VolumeError> {
        Ok(Self::new(host.kernel.mounts().await.during("read mount table")?, data))
    }

    pub fn new(table: Vec<Mount>, data: PathBuf) -> Self {
        // Of the mounts above a path the youngest shows there: it hides every older one.
        let above = table.iter().rev().filter(|mount| mount.target != data);
        let showing = above.filter_map(|mount| Some((mount, data.strip_prefix(&mount.target).ok()?))).next();
        let (device, root) = match showing {
            Some((mount, rest)) => (mount.device.clone(), mount.root.join(rest)),
            None => (String::new(), data.clone()),
        };
        Self { table, data, device, root }
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The mount that shows at a path; later ones hide earlier ones.
    pub fn at(&self, path: &Path) -> Option<&Mount> {
        self.table.iter().rev().find(|mount| mount.target == path)
    }

    /// Whether a mount shows the whole volume.
    pub fn is_share(&self, mount: &Mount) -> bool {
        mount.device == self.device && mount.root == self.root
    }

    /// Whether the volume is published at a path.
    pub fn is_at(&self, path: &Path) -> bool {
        self.at(path).is_some_and(|mount| self.is_share(mount))
    }

    /// A place other than `target` where the whole volume shows. Parts of it, such as a directory bound elsewhere
    /// by the caller, belong to a target and are not one.
    pub fn other_target(&self, target: &Path) -> Option<&Path> {
        let other = |mount: &&Mount| mount.target != target && self.is_share(mount);
        self.table.iter().find(other).map(|mount| mount.target.as_path())
    }

    /// A mount of the volume or of anything in it.
    pub fn shown(&self) -> Option<&Path> {
        let ours = |mount: &&Mount| mount.device == self.device && mount.root.starts_with(&self.root);
        self.table.iter().find(ours).map(|mount| mount.target.as_path())
    }

    /// Whether something is mounted over the volume, so that a bind would show that instead.
    pub fn covered(&self) -> bool {
        self.at(&self.data).is_some()
    }

    /// Something that is mounted inside the volume.
    pub fn inside(&self) -> Option<&Path> {
        let inside = |mount: &&Mount| mount.target.starts_with(&self.data);
        self.table.iter().find(inside).map(|mount| mount.target.as_path())
    }
}
