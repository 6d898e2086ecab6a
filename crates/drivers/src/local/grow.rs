//! Filesystems that are smaller than their device: after an expansion, or restored from something smaller.
//!
//! ext4 is grown before it is mounted, where nobody needs a privilege for it; xfs and btrfs can only grow mounted.

use std::io::ErrorKind;
use std::path::Path;

use super::driver::Driver;
use super::mounts::Seen;
use super::record::VolumeRecord;
use crate::capability::FsType;
use crate::capacity::MIB;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// Volumes come in whole MiB, so a filesystem that lacks less has only rounded to blocks of its own.
const ROUNDING: u64 = MIB;

/// One filesystem on its device, mounted at `target` or to be mounted there.
pub struct Growing<'a> {
    pub driver: &'a Driver,
    pub id: &'a VolumeId,
    pub device: &'a Path,
    pub target: &'a Path,
    /// As the kernel calls it.
    pub fs: &'a str,
    /// Whether it is mounted so that nothing can change it.
    pub read_only: bool,
}

impl Growing<'_> {
    /// After the filesystem was checked.
    pub async fn before_mount(&self) -> Result<()> {
        if self.read_only || !self.grows_unmounted() { Ok(()) } else { self.grow().await }
    }

    /// Directly after it was mounted. Nobody unstages what was never staged, so a failure also takes the mount off.
    pub async fn after_mount(&self) -> Result<()> {
        let grown = self.while_mounted().await;
        if grown.is_err()
            && let Err(error) = self.driver.host.kernel.unmount(self.target).await
        {
            tracing::warn!(%error, "filesystem stays mounted after a failed staging");
        }
        grown
    }

    async fn while_mounted(&self) -> Result<()> {
        if self.read_only || self.grows_unmounted() { Ok(()) } else { self.grow().await }
    }

    fn grows_unmounted(&self) -> bool {
        self.fs == FsType::Ext4.as_str()
    }

    /// Grows the filesystem to the size of its device, if it is smaller.
    ///
    /// # Crash safety
    /// Whether there is something to do is asked of the device and the filesystem each time. The tools finish when
    /// this process dies; one that is cut short by more than that is finished by the check and the growth of the
    /// next staging.
    pub async fn grow(&self) -> Result<()> {
        let kernel = &self.driver.host.kernel;
        let size = kernel.device_size(self.device).await.during("measure device")?;
        let record = self.driver.pool.ready(self.id)?;
        if record.filled == Some(size) || !self.falls_short(size).await? {
            return Ok(());
        }
        self.driver.point("local.grow.before");
        let grown = kernel.grow_filesystem(self.device, self.target, self.fs).await;
        self.driver.point("local.grow.after");
        if let Err(error) = &grown
            && error.errno.is_some_and(not_permitted)
        {
            return Err(VolumeError::MayNotGrow { id: self.id.clone() });
        }
        grown.during("grow filesystem")?;
        if self.falls_short(size).await? {
            // Some filesystems leave the end of a device alone when it is too small for one of their groups. Without
            // a note every staging would pay for a full check, only to find that out again.
            let filled = VolumeRecord { filled: Some(size), ..(*record).clone() };
            self.driver.pool.volumes.put(self.id, filled).await?;
            self.driver.point("local.grow.after-record");
        }
        Ok(())
    }

    async fn falls_short(&self, device: u64) -> Result<bool> {
        let kernel = &self.driver.host.kernel;
        let filesystem = kernel.filesystem_size(self.device, self.fs).await.during("measure filesystem")?;
        Ok(device.saturating_sub(filesystem) >= ROUNDING)
    }
}

/// For a volume that is staged already: a crash may have come between the mount and the growth.
pub async fn staged(driver: &Driver, id: &VolumeId, path: &Path, seen: &Seen) -> Result<()> {
    let (Some(device), Some(mount)) = (&seen.device, seen.at(path)) else { return Ok(()) };
    let (fs, read_only) = (mount.fs_type.as_str(), mount.read_only());
    Growing { driver, id, device, target: path, fs, read_only }.while_mounted().await
}

fn not_permitted(errno: i32) -> bool {
    std::io::Error::from_raw_os_error(errno).kind() == ErrorKind::PermissionDenied
}
