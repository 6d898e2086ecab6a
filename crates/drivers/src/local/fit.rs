//! A volume's device, made as its record says: as large, and with the same queue.
//!
//! A crash between the record and the device leaves it behind, and every detachment loses its queue. So this is
//! repeated whenever a device is attached, found attached at the start, or asked to change.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use bowline_host::kernel::Queue;

use super::driver::Driver;
use super::record::VolumeRecord;
use crate::error::{During, VolumeError, chain};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// Fits a device that was just attached, or found attached.
pub async fn device(driver: &Driver, id: &VolumeId, record: &VolumeRecord, device: &Path) -> Result<()> {
    size(driver, record, device).await?;
    match queue(driver, id, record.mutable.queue(), device).await {
        // Nobody waits for it here: whoever asked for it was told.
        Err(VolumeError::AtNextAttachment { .. }) => Ok(()),
        fitted => fitted,
    }
}

pub async fn size(driver: &Driver, record: &VolumeRecord, device: &Path) -> Result<()> {
    let kernel = &driver.host.kernel;
    if kernel.device_size(device).await.during("measure device")? < record.capacity {
        driver.point("local.fit.before-refresh");
        kernel.loop_refresh(device).await.during("refresh loop device")?;
        driver.point("local.fit.after-refresh");
    }
    Ok(())
}

pub async fn queue(driver: &Driver, id: &VolumeId, queue: Queue, device: &Path) -> Result<()> {
    if queue == Queue::default() {
        return Ok(());
    }
    let kernel = &driver.host.kernel;
    driver.point("local.fit.before-queue");
    let set = kernel.set_queue(device, queue).await;
    driver.point("local.fit.after-queue");
    match set {
        Err(source) if queue.discard == Some(true) && source.errno.is_some_and(is_invalid) => {
            let rest = Queue { discard: None, ..queue };
            kernel.set_queue(device, rest).await.during("set the queue of the device")?;
            Err(VolumeError::AtNextAttachment { id: id.clone(), source })
        }
        set => set.during("set the queue of the device"),
    }
}

/// What the kernel says of discards that were off and shall pass again.
fn is_invalid(errno: i32) -> bool {
    Error::from_raw_os_error(errno).kind() == ErrorKind::InvalidInput
}

/// The device of the volume, if it is attached; kept open from now on.
pub async fn attached(driver: &Driver, id: &VolumeId) -> Result<Option<PathBuf>> {
    driver.host.kernel.loop_hold(&driver.pool.image(id)).await.during("find loop device")
}

/// Fits everything that an earlier process left attached. A device that resists is its volume's trouble, not a
/// reason to leave all others without a driver.
pub async fn all(driver: &Driver) -> Result<()> {
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    // The image of a volume stands in a directory of its name; whether it really is that image is asked again.
    let names = loops.iter().filter_map(|found| found.image.parent()?.file_name()?.to_str());
    for id in names.filter_map(VolumeId::parse) {
        if let Err(error) = again(driver, &id).await {
            tracing::warn!(volume = %id, error = chain(&error), "attached device is not as recorded");
        }
    }
    Ok(())
}

async fn again(driver: &Driver, id: &VolumeId) -> Result<()> {
    let Some(record) = driver.pool.volumes.get(id) else { return Ok(()) };
    match attached(driver, id).await? {
        Some(found) => device(driver, id, &record, &found).await,
        None => Ok(()),
    }
}
