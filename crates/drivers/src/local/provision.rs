//! CreateVolume and DeleteVolume.

use super::driver::Driver;
use super::parse::CreateVolume;
use super::plan::{self, Create};
use super::record::{Phase, VolumeRecord};
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

/// Makes the volume, or finishes or returns the one that is there.
///
/// # Crash safety
/// The record is written as `Creating` before the image exists and as `Ready` after. Dying in between leaves a
/// record that the same call completes and DeleteVolume removes.
pub async fn create(driver: &Driver, want: CreateVolume) -> Result<VolumeRecord, VolumeError> {
    let total = driver.pool.space().await?.total;
    let have = driver.pool.volumes.get(&want.id).map(|have| (*have).clone());
    let places: Vec<_> = driver.config.nodes().map(|node| &node.topology).collect();
    let record = match plan::create(&want, have, &places, total)? {
        Create::Reuse(record) => return Ok(record),
        Create::Resume(record) => record,
        Create::Make(record) => {
            driver.point("local.create-volume.before-dir");
            driver.pool.make_place(&want.id).await?;
            driver.point("local.create-volume.before-record");
            driver.pool.volumes.put(&want.id, record.clone()).await?;
            record
        }
    };
    driver.point("local.create-volume.before-image");
    driver.pool.make_image(&want.id, record.capacity).await?;
    driver.point("local.create-volume.before-ready");
    let record = VolumeRecord { phase: Phase::Ready, ..record };
    driver.pool.volumes.put(&want.id, record.clone()).await?;
    driver.point("local.create-volume.after-ready");
    Ok(record)
}

/// Removes the volume; one that is not there counts as removed.
pub async fn delete(driver: &Driver, id: VolumeId) -> Result<(), VolumeError> {
    let Some(record) = driver.pool.volumes.get(&id) else {
        // An earlier call may have failed at its very last step.
        return driver.pool.volumes.remove_dir(&id).await;
    };
    refuse_in_use(driver, &id, &record).await?;
    if record.phase != Phase::Deleting {
        driver.point("local.delete-volume.before-record");
        driver.pool.volumes.put(&id, VolumeRecord { phase: Phase::Deleting, ..(*record).clone() }).await?;
    }
    driver.point("local.delete-volume.before-image");
    driver.pool.remove(&id).await?;
    driver.point("local.delete-volume.after-dir");
    Ok(())
}

async fn refuse_in_use(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<(), VolumeError> {
    let in_use = |how: String| Err(VolumeError::InUse { id: id.clone(), how });
    if let Some(node) = record.published.keys().next() {
        return in_use(format!("published to node `{node}`"));
    }
    // Whatever is mounted is attached, too.
    let device = driver.host.kernel.loop_of(&driver.pool.image(id)).await.during("find loop device")?;
    match device {
        Some(device) => in_use(format!("attached as `{}`", device.display())),
        None => Ok(()),
    }
}
