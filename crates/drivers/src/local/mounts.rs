//! What the kernel says about one volume: its loop device, and where that shows in the mount table.

use std::path::{Path, PathBuf};

use bowline_host::Host;
use bowline_host::kernel::Mount;

use crate::error::{During, VolumeError};

/// Filesystems that hold device files.
const DEVICE_FILESYSTEMS: [&str; 2] = ["devtmpfs", "tmpfs"];

/// One look at the kernel. Looked up by backing file, so a restarted driver adopts what it finds.
#[derive(Debug)]
pub struct Seen {
    pub device: Option<PathBuf>,
    table: Vec<Mount>,
}

/// How a mount relates to the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The filesystem on the volume's device.
    Filesystem,
    /// The device file itself.
    Device,
    /// Something else.
    Foreign,
}

impl Seen {
    pub async fn look(host: &Host, image: &Path) -> Result<Self, VolumeError> {
        let device = host.kernel.loop_of(image).await.during("find loop device")?;
        let table = host.kernel.mounts().await.during("read mount table")?;
        Ok(Self { device, table })
    }

    #[cfg(test)]
    pub fn new(device: Option<&str>, table: Vec<Mount>) -> Self {
        Self { device: device.map(PathBuf::from), table }
    }

    /// The mount that shows at a path; later ones hide earlier ones.
    pub fn at(&self, path: &Path) -> Option<&Mount> {
        self.table.iter().rev().find(|mount| mount.target == path)
    }

    pub fn owner_at(&self, path: &Path) -> Option<Owner> {
        self.at(path).map(|mount| self.owner(mount))
    }

    pub fn owner(&self, mount: &Mount) -> Owner {
        let Some(device) = &self.device else { return Owner::Foreign };
        if Path::new(&mount.source) == device {
            return Owner::Filesystem;
        }
        let names_device = mount.root.file_name().is_some_and(|name| Some(name) == device.file_name());
        if names_device && DEVICE_FILESYSTEMS.contains(&mount.fs_type.as_str()) {
            return Owner::Device;
        }
        Owner::Foreign
    }

    /// Whether a mount shows a loop device file although the volume has no device any more. Which one it had
    /// cannot be told, so this only means something at a path where the volume was published.
    pub fn is_stale_device(&self, mount: &Mount) -> bool {
        let name = mount.root.file_name().map(|name| name.to_string_lossy());
        let is_loop = name.is_some_and(|name| name.starts_with("loop"));
        self.device.is_none() && is_loop && DEVICE_FILESYSTEMS.contains(&mount.fs_type.as_str())
    }

    /// Places other than `staging` where the volume shows.
    pub fn uses_besides<'a>(&'a self, staging: &'a Path) -> impl Iterator<Item = &'a Path> {
        let ours = move |mount: &&Mount| mount.target != staging && self.owner(mount) != Owner::Foreign;
        self.table.iter().filter(ours).map(|mount| mount.target.as_path())
    }

    /// A place other than `staging` and `target` where the whole volume shows. Parts of it, such as a
    /// directory bound elsewhere by the caller, belong to a target and are not one.
    pub fn other_target(&self, staging: &Path, target: &Path) -> Option<&Path> {
        let whole = |mount: &&Mount| match self.owner(mount) {
            Owner::Filesystem => mount.root == Path::new("/"),
            Owner::Device => true,
            Owner::Foreign => false,
        };
        let elsewhere = |mount: &&Mount| mount.target != staging && mount.target != target;
        self.table.iter().filter(elsewhere).find(whole).map(|mount| mount.target.as_path())
    }
}
