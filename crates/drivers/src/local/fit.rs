//! A volume's device, made as its record says: as large, and with the same queue.
//!
//! Both are lost or left half-done by a crash between the record and the device, and the queue by every detach. So
//! this is repeated whenever a device is attached, found attached at the start, or changed.

use std::path::Path;

use super::driver::Driver;
use super::record::VolumeRecord;
use crate::error::{During, VolumeError, chain};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn device(driver: &Driver, record: &VolumeRecord, device: &Path) -> Result<()> {
    let kernel = &driver.host.kernel;
    if kernel.device_size(device).await.during("measure device")? < record.capacity {
        driver.point("local.fit.before-refresh");
        kernel.loop_refresh(device).await.during("refresh loop device")?;
    }
    driver.point("local.fit.before-queue");
    kernel.set_queue(device, record.mutable.queue()).await.during("set the queue of the device")?;
    driver.point("local.fit.after-queue");
    Ok(())
}

/// Fits the device if the volume is attached.
pub async fn if_attached(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<()> {
    let attached = driver.host.kernel.loop_of(&driver.pool.image(id)).await;
    match attached.during("find loop device")? {
        Some(found) => device(driver, record, &found).await,
        None => Ok(()),
    }
}

/// Fits everything that an earlier process left attached. A device that resists is its volume's trouble, not a
/// reason to leave all others without a driver.
pub async fn all(driver: &Driver) -> Result<()> {
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    // The image of a volume stands in a directory of its name; whether it really is that image is asked again.
    let names = loops.iter().filter_map(|found| found.image.parent()?.file_name()?.to_str());
    for id in names.filter_map(VolumeId::parse) {
        let Some(record) = driver.pool.volumes.get(&id) else { continue };
        if let Err(error) = if_attached(driver, &id, &record).await {
            tracing::warn!(volume = %id, error = chain(&error), "attached device is not as recorded");
        }
    }
    Ok(())
}
