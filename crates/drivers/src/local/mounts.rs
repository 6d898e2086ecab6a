//! What the kernel says about one volume: its loop device, and where that shows in the mount table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bowline_host::kernel::{DEVICE_FILESYSTEMS, LoopDevice, Mount};

use super::devices::{self, Taken};
use super::driver::Driver;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

/// One look at the kernel. Looked up by backing file, so a restarted driver adopts what it finds.
#[derive(Debug)]
pub struct Seen {
    pub device: Option<PathBuf>,
    /// A device that its users have and that is not the volume's any more.
    pub taken: Option<Taken>,
    table: Vec<Mount>,
    /// Whether the table is complete, not just what shows at the places looked at.
    everywhere: bool,
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
    /// Looks everywhere, for an operation that has the volume alone. The table has a line for every use of every volume, so this is for questions that need
    /// all of it.
    pub async fn look(driver: &Driver, id: &VolumeId) -> Result<Self, VolumeError> {
        let (device, taken) = device(driver, id).await?;
        let table = driver.host.kernel.mounts().await.during("read mount table")?;
        Ok(Self { device, taken, table, everywhere: true })
    }

    /// Looks at a few places, which costs the same with ten mounts as with ten thousand.
    pub async fn glance(
        driver: &Driver,
        id: &VolumeId,
        places: BTreeSet<&Path>,
    ) -> Result<Self, VolumeError> {
        let (device, taken) = device(driver, id).await?;
        let mut table = Vec::new();
        for place in places {
            table.extend(driver.host.kernel.mount_at(place).await.during("look for a mount")?);
        }
        Ok(Self { device, taken, table, everywhere: false })
    }

    /// Looks everywhere beside operations on the volume: neither keeps its device open nor withdraws a request to
    /// clear it, which may be an operation's.
    pub async fn peek(driver: &Driver, id: &VolumeId) -> Result<Self, VolumeError> {
        let found = driver.host.kernel.loop_of(&driver.pool.image(id)).await;
        let device = found.during("find loop device")?;
        let taken = devices::taken(driver, id, device.as_deref()).await?;
        let table = driver.host.kernel.mounts().await.during("read mount table")?;
        Ok(Self { device, taken, table, everywhere: true })
    }

    #[cfg(test)]
    pub fn new(device: Option<&str>, table: Vec<Mount>) -> Self {
        Self { device: device.map(PathBuf::from), taken: None, table, everywhere: true }
    }

    /// The mount that shows at a path; later ones hide earlier ones.
    pub fn at(&self, path: &Path) -> Option<&Mount> {
        self.table.iter().rev().find(|mount| mount.target == path)
    }

    pub fn owner_at(&self, path: &Path) -> Option<Owner> {
        self.at(path).map(|mount| self.owner(mount))
    }

    pub fn owner(&self, mount: &Mount) -> Owner {
        match self.device.as_deref().map_or(Owner::Foreign, |device| owner(device, mount)) {
            // Only the device file is the volume's: a filesystem on a device that was taken is another volume's.
            Owner::Foreign => match &self.taken {
                Some(taken) if owner(&taken.device, mount) == Owner::Device => Owner::Device,
                _ => Owner::Foreign,
            },
            found => found,
        }
    }

    /// A mount through which the volume's filesystem can be changed.
    pub fn writable(&self) -> Option<&Mount> {
        let changes = |mount: &&Mount| self.owner(mount) == Owner::Filesystem && !mount.read_only();
        self.table.iter().find(changes)
    }

    /// Places other than `staging` where the volume shows.
    pub fn uses_besides<'a>(&'a self, staging: &'a Path) -> impl Iterator<Item = &'a Path> {
        debug_assert!(self.everywhere, "only a look everywhere finds every use");
        let ours = move |mount: &&Mount| mount.target != staging && self.owner(mount) != Owner::Foreign;
        self.table.iter().filter(ours).map(|mount| mount.target.as_path())
    }

    /// Where the whole filesystem is mounted; those that show at their path first, then writable ones.
    pub fn whole(&self) -> Option<&Mount> {
        let whole = |mount: &&Mount| self.owner(mount) == Owner::Filesystem && mount.root == Path::new("/");
        self.table.iter().filter(whole).min_by_key(|mount| (self.is_hidden(mount), mount.read_only()))
    }

    /// Whether a later mount hides this one, at its path or above, so that its path leads to something else.
    pub fn is_hidden(&self, mount: &Mount) -> bool {
        let later = self.table.iter().rev().take_while(|later| !std::ptr::eq(*later, mount));
        later.into_iter().any(|later| mount.target.starts_with(&later.target))
    }

    /// A place other than `staging` and `target` where the whole volume shows. Parts of it, such as a
    /// directory bound elsewhere by the caller, belong to a target and are not one.
    pub fn other_target(&self, staging: &Path, target: &Path) -> Option<&Path> {
        debug_assert!(self.everywhere, "only a look everywhere finds every target");
        let whole = |mount: &&Mount| match self.owner(mount) {
            Owner::Filesystem => mount.root == Path::new("/"),
            Owner::Device => true,
            Owner::Foreign => false,
        };
        let elsewhere = |mount: &&Mount| mount.target != staging && mount.target != target;
        self.table.iter().filter(elsewhere).find(whole).map(|mount| mount.target.as_path())
    }
}

/// The device that has the volume's image, kept open from now on, and the one that its users have instead.
async fn device(driver: &Driver, id: &VolumeId) -> Result<(Option<PathBuf>, Option<Taken>), VolumeError> {
    let held = driver.host.kernel.loop_hold(&driver.pool.image(id)).await;
    let device = held.during("find loop device")?;
    let taken = devices::settle(driver, id, device.as_deref()).await?;
    Ok((device, taken))
}

/// How a mount relates to the volume on a device.
pub fn owner(device: &Path, mount: &Mount) -> Owner {
    if Path::new(&mount.source) == device {
        return Owner::Filesystem;
    }
    if mount.shows_device(device) {
        return Owner::Device;
    }
    Owner::Foreign
}

/// Whether a mount shows a loop device that has lost its image. Nothing can be read or written there, and whose it
/// was cannot be told any more.
pub fn is_stale(mount: &Mount, loops: &[LoopDevice]) -> bool {
    let device = match DEVICE_FILESYSTEMS.contains(&mount.fs_type.as_str()) {
        true => mount.root.file_name(),
        false => Path::new(&mount.source).file_name(),
    };
    let Some(device) = device.filter(|name| is_loop(&name.to_string_lossy())) else { return false };
    !loops.iter().any(|attached| attached.device.file_name() == Some(device))
}

fn is_loop(name: &str) -> bool {
    let number = name.strip_prefix("loop").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_mounts_are_stale() {
        let attached = LoopDevice {
            device: "/dev/loop1".into(),
            image: "/pool/volumes/v/disk.img".into(),
            deleted: false,
            read_only: false,
        };
        let table = [
            ("a device without image", "devtmpfs", "/loop0", "dev", true),
            ("a device with one", "devtmpfs", "/loop1", "dev", false),
            ("not a loop device", "devtmpfs", "/null", "dev", false),
            ("a partition", "devtmpfs", "/loop0p1", "dev", false),
            ("a filesystem without image", "ext4", "/", "/dev/loop0", true),
            ("a filesystem with one", "ext4", "/", "/dev/loop1", false),
            ("another filesystem", "ext4", "/loop0", "/dev/sda", false),
        ];
        for (name, fs_type, root, source, stale) in table {
            let mount = Mount {
                device: "7:0".into(),
                root: root.into(),
                target: "/t".into(),
                options: Vec::new(),
                fs_type: fs_type.into(),
                source: source.into(),
                filesystem_read_only: false,
            };
            assert_eq!(is_stale(&mount, std::slice::from_ref(&attached)), stale, "{name}");
        }
    }
}
