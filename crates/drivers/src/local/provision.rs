//! CreateVolume and DeleteVolume.

use std::path::Path;

use super::driver::Driver;
use super::mounts::Seen;
use super::parse::CreateVolume;
use super::plan::{self, Create};
use super::record::{Phase, VolumeRecord};
use super::room::{self, Reservation};
use super::{recipe, restore};
use crate::error::{VolumeError, chain};
use crate::id::VolumeId;

/// Makes the volume, or finishes or returns the one that is there.
///
/// # Crash safety
/// The record is written as `Creating` before the image exists and as `Ready` after. Dying in between leaves a
/// record that the same call completes and DeleteVolume removes.
pub async fn create(driver: &Driver, mut want: CreateVolume) -> Result<VolumeRecord, VolumeError> {
    let id = want.id.clone();
    let total = driver.pool.space().await?.total;
    let room = room::now(driver, total);
    let have = driver.pool.volumes.get(&id).map(|have| (*have).clone());
    if have.is_none() {
        // A volume that an earlier version made with options that are refused now is still there.
        recipe::check(&want.parameters, &want.capabilities)?;
    }
    let planned = match restore::origin(driver, &want, have.as_ref())? {
        Some(origin) => plan::snapshot::create_from(want, have, &origin, room)?,
        None => {
            have.iter().for_each(|have| plan::snapshot::keep(&mut want, have));
            let places: Vec<_> = driver.config.nodes().map(|node| &node.topology).collect();
            plan::create(&want, have, &places, room)?
        }
    };
    let (record, reserved) = match planned {
        Create::Reuse(record) => return Ok(record),
        Create::Resume(record) => (record, None),
        Create::Make(record) => {
            let reserved = room::reserve(driver, total, record.capacity)?;
            driver.point("local.create-volume.before-dir");
            driver.pool.make_place(&id).await?;
            (record, Some(reserved))
        }
    };
    let made = make(driver, &id, record.clone(), reserved).await;
    if made.is_err() && record.source.is_some() {
        // Bytes of a source may be many, and whoever asked may never ask again.
        discard(driver, &id).await;
    }
    made
}

async fn make(
    driver: &Driver,
    id: &VolumeId,
    record: VolumeRecord,
    reserved: Option<Reservation<'_>>,
) -> Result<VolumeRecord, VolumeError> {
    driver.point("local.create-volume.before-record");
    driver.pool.volumes.put(id, record.clone()).await?;
    // From here on the record counts; until here nobody else could take its room.
    drop(reserved);
    driver.point("local.create-volume.before-image");
    restore::make_image(driver, id, &record).await?;
    driver.point("local.create-volume.before-ready");
    let record = VolumeRecord { phase: Phase::Ready, ..record };
    driver.pool.volumes.put(id, record.clone()).await?;
    driver.point("local.create-volume.after-ready");
    Ok(record)
}

/// Removes a volume that nobody was promised.
async fn discard(driver: &Driver, id: &VolumeId) {
    if let Err(error) = delete(driver, id.clone()).await {
        tracing::warn!(volume = %id, error = chain(&error), "half a volume stays until it is asked for again");
    }
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
        mark_deleting(driver, &id, &record).await?;
    }
    driver.point("local.delete-volume.before-image");
    driver.pool.remove(&id).await?;
    driver.point("local.delete-volume.after-dir");
    Ok(())
}

/// A full pool must not keep its volumes from being deleted. Without the mark a crash leaves a volume whose image
/// is gone, which the repeat of this call removes just as well.
async fn mark_deleting(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<(), VolumeError> {
    let marked = VolumeRecord { phase: Phase::Deleting, ..record.clone() };
    match driver.pool.volumes.put(id, marked).await {
        Err(VolumeError::Full { .. }) => Ok(()),
        put => put,
    }
}

async fn refuse_in_use(driver: &Driver, id: &VolumeId, record: &VolumeRecord) -> Result<(), VolumeError> {
    let in_use = |how: String| Err(VolumeError::InUse { id: id.clone(), how });
    if let Some(node) = record.published.keys().next() {
        return in_use(format!("published to node `{node}`"));
    }
    let seen = Seen::look(driver, id).await?;
    if let Some(taken) = &seen.taken {
        return in_use(taken.describe());
    }
    let Some(device) = &seen.device else { return Ok(()) };
    let attached = || in_use(format!("attached as `{}`", device.display()));
    if seen.uses_besides(Path::new("")).next().is_some() {
        return attached();
    }
    // Nothing shows it: a failed staging could not let go of it, or the end of one could not be recorded. The kernel
    // knows whether anything has it open.
    driver.host.kernel.loop_release(device, &driver.pool.image(id)).await.or_else(|_| attached())
}
