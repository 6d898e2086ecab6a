//! CreateVolume, DeleteVolume and ControllerExpandVolume.

use std::sync::Arc;

use super::driver::Driver;
use super::mounts::Seen;
use super::parse::CreateVolume;
use super::plan::{self, Create};
use super::record::{Phase, ShareRecord};
use crate::capacity::Range;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn create(driver: &Driver, want: CreateVolume) -> Result<ShareRecord> {
    let total = driver.shares.space().await?.total;
    let have = driver.shares.get(&want.id);
    let plan = plan::create(&want, have.as_deref(), total)?;
    carry_out(driver, &want.id, plan).await
}

/// Makes the volume, or finishes or returns the one that is there.
///
/// # Crash safety
/// The record is written as `Creating` before the directory exists and as `Ready` after. Dying in between leaves a
/// record that the same call completes and DeleteVolume removes.
pub async fn carry_out(driver: &Driver, id: &VolumeId, plan: Create) -> Result<ShareRecord> {
    let record = match plan {
        Create::Reuse(record) => return Ok(record),
        Create::Resume(record) => record,
        Create::Make(record) => {
            driver.point("share.create.before-place");
            driver.shares.make_dir(id).await?;
            refuse_leftovers(driver, id).await?;
            driver.point("share.create.before-record");
            driver.shares.put(id, record.clone()).await?;
            record
        }
    };
    driver.point("share.create.before-directory");
    let made = driver.host.disk.create_owned_dir(&driver.data(id), record.directory.owner()).await;
    made.during("create directory")?;
    driver.point("share.create.before-ready");
    let record = ShareRecord { phase: Phase::Ready, ..record };
    driver.shares.put(id, record.clone()).await?;
    driver.point("share.create.after-ready");
    Ok(record)
}

/// Adopting a directory without a record would hand one workload's files to another.
async fn refuse_leftovers(driver: &Driver, id: &VolumeId) -> Result<()> {
    let path = driver.data(id);
    match driver.host.disk.kind(&path).await.during("look for a directory")? {
        None => Ok(()),
        Some(_) => Err(VolumeError::Foreign { path, what: "a directory without a record" }),
    }
}

/// Removes the volume and everything in it; one that is not there counts as removed.
///
/// # Crash safety
/// The record says `Deleting` before the first file goes and stays until the last has gone, so whatever a crash
/// leaves is never published again; a repeat, or the next start, removes the rest.
pub async fn delete(driver: &Driver, id: &VolumeId) -> Result<()> {
    let Some(record) = driver.shares.get(id) else {
        // An earlier call may have failed at its very last step.
        return driver.shares.remove_dir(id).await;
    };
    plan::delete(id, &Seen::look(&driver.host, driver.data(id)).await?)?;
    if record.phase != Phase::Deleting {
        driver.point("share.delete.before-record");
        let record = ShareRecord { phase: Phase::Deleting, ..record.as_ref().clone() };
        driver.shares.put(id, record).await?;
    }
    driver.point("share.delete.before-directory");
    driver.host.disk.remove_tree(&driver.data(id)).await.during("remove directory")?;
    driver.point("share.delete.after-directory");
    driver.shares.forget(id).await?;
    driver.point("share.delete.after-record");
    driver.shares.remove_dir(id).await?;
    driver.point("share.delete.after-place");
    Ok(())
}

/// Finishes deletions that a crash cut short, one after another. A large tree takes long, so callers are served
/// meanwhile; one that cannot be finished stays until DeleteVolume is repeated.
pub async fn finish_deletions(driver: Arc<Driver>) {
    for (id, record) in driver.shares.all() {
        if record.phase != Phase::Deleting {
            continue;
        }
        let (worker, volume) = (driver.clone(), id.clone());
        let work = async move { delete(&worker, &volume).await };
        if let Err(status) = driver.exclusive(&id, work).await {
            tracing::warn!(volume = %id, why = status.message(), "deletion is not finished");
        }
    }
}

/// Writes down a larger size.
pub async fn expand(driver: &Driver, id: &VolumeId, range: Range) -> Result<u64> {
    let have = driver.created(id)?;
    let total = driver.shares.space().await?.total;
    let capacity = plan::expand(range, &have, total)?;
    if capacity != have.capacity {
        driver.point("share.expand.before-record");
        driver.shares.put(id, ShareRecord { capacity, ..have.as_ref().clone() }).await?;
        driver.point("share.expand.after-record");
    }
    Ok(capacity)
}
