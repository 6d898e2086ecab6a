//! One look at a volume.

use std::io;
use std::path::Path;

use bowline_host::disk::Kind;
use bowline_host::kernel::Mount;

use super::Result;
use super::judge::{Facts, Filesystem, Image};
use crate::error::During;
use crate::id::VolumeId;
use crate::local::devices;
use crate::local::driver::Driver;
use crate::local::record::{Contents, VolumeRecord};

pub async fn at(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<Facts> {
    let image = image(driver, id, record).await?;
    let device = driver.host.kernel.loop_of(&driver.pool.image(id)).await.during("find loop device")?;
    let filesystem = match &device {
        Some(device) => filesystem(driver, record, device).await?,
        None => None,
    };
    let taken = devices::taken(driver, id, device.as_deref()).await?;
    Ok(Facts { capacity: record.capacity, image, attached: device.is_some(), taken, filesystem })
}

pub async fn image(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<Image> {
    if let Contents::Formatting(_) = record.contents {
        return Ok(Image::Unfinished);
    }
    let (disk, path) = (&driver.host.disk, driver.pool.image(id));
    let error = match disk.length(&path).await {
        Ok(bytes) => return Ok(Image::Bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Image::Missing),
        Err(error) => error,
    };
    match disk.kind(&path).await.during("look for an image")? {
        Some(Kind::Dir | Kind::Socket | Kind::BlockDevice | Kind::Other) => Ok(Image::Missing),
        Some(Kind::File | Kind::Symlink) | None => Err(error).during("measure image"),
    }
}

/// The filesystem where it was staged. All nodes of this machine share it, so the first one tells.
async fn filesystem(driver: &Driver, record: &VolumeRecord, device: &Path) -> Result<Option<Filesystem>> {
    let kernel = &driver.host.kernel;
    for staging in record.staged.values().filter(|staging| !staging.block) {
        let ours = |mount: &Mount| Path::new(&mount.source) == device;
        let mount = kernel.mount_at(&staging.path).await.during("look for a mount")?;
        let Some(mount) = mount.filter(ours) else { continue };
        let errors = kernel.filesystem_errors(device, &mount.fs_type).await.during("look for errors")?;
        let refuses_writes = mount.filesystem_read_only && !staging.read_only;
        return Ok(Some(Filesystem { errors, refuses_writes }));
    }
    Ok(None)
}
