//! CreateSnapshot and DeleteSnapshot: a copy of the image that needs its volume no longer.

use tonic::Code;

use super::driver::Driver;
use super::moment::{self, Copy};
use super::parse::snapshot::CreateSnapshot;
use super::plan::snapshot::{self as plan, Cut};
use super::record::{Contents, GroupRecord, Phase, SnapshotRecord};
use super::room;
use crate::error::{During, VolumeError, chain};
use crate::id::SnapshotId;

pub mod list;

type Result<T> = std::result::Result<T, VolumeError>;

/// Cuts the snapshot, or returns the one that is there.
///
/// # Crash safety
/// The record is written as `Creating` before the image exists and as `Ready` after. Callers see it only then,
/// so what a failure leaves is removed at once and what a crash leaves at the next start (`aftermath`).
pub async fn create(driver: &Driver, want: CreateSnapshot) -> Result<SnapshotRecord> {
    let have = driver.pool.snapshots.get(&want.id);
    let volume = driver.pool.volumes.get(&want.volume);
    let record = match plan::create_snapshot(&want, have.as_deref(), volume.as_deref())? {
        Cut::Reuse(record) => return Ok(record),
        Cut::Make(record) => record,
    };
    if have.is_none() {
        refuse_foreign(driver, &want.id).await?;
    }
    let made = make(driver, &want.id, record).await;
    if made.is_err() {
        discard(driver, &want.id).await;
    }
    made
}

async fn make(driver: &Driver, id: &SnapshotId, record: SnapshotRecord) -> Result<SnapshotRecord> {
    begin(driver, id, &record).await?;
    let copies: Vec<_> = copy_of(driver, id, &record).into_iter().collect();
    let created = moment::copy(driver, &copies).await?;
    finish(driver, id, SnapshotRecord { created, ..record }).await
}

/// The intent, and the image of a volume that has nothing to copy.
pub async fn begin(driver: &Driver, id: &SnapshotId, record: &SnapshotRecord) -> Result<()> {
    // What a crash left half made is counted already.
    let total = driver.pool.space().await?.total;
    let counted = driver.pool.snapshots.get(id).is_some();
    let _reserved = (!counted).then(|| room::reserve(driver, total, record.size)).transpose()?;
    driver.point("local.create-snapshot.before-dir");
    driver.pool.snapshots.make_dir(id).await?;
    driver.point("local.create-snapshot.before-record");
    driver.pool.snapshots.put(id, record.clone()).await?;
    driver.point("local.create-snapshot.before-image");
    if record.contents == Contents::Blank {
        let (disk, image) = (&driver.host.disk, driver.pool.snapshot_image(id));
        disk.remove_file(&image).await.during("remove image")?;
        disk.create_sparse(&image, record.size).await.during("create image")?;
    }
    Ok(())
}

/// What there is to copy.
pub fn copy_of(driver: &Driver, id: &SnapshotId, record: &SnapshotRecord) -> Option<Copy> {
    let copy = || Copy { volume: record.volume.clone(), to: driver.pool.snapshot_image(id) };
    (record.contents != Contents::Blank).then(copy)
}

pub async fn finish(driver: &Driver, id: &SnapshotId, record: SnapshotRecord) -> Result<SnapshotRecord> {
    driver.point("local.create-snapshot.before-ready");
    let record = SnapshotRecord { phase: Phase::Ready, ..record };
    driver.pool.snapshots.put(id, record.clone()).await?;
    driver.point("local.create-snapshot.after-ready");
    Ok(record)
}

/// Bytes without a record may be somebody's only copy.
pub async fn refuse_foreign(driver: &Driver, id: &SnapshotId) -> Result<()> {
    let path = driver.pool.snapshot_image(id);
    match driver.host.disk.kind(&path).await.during("look for an image")? {
        None => Ok(()),
        Some(_) => Err(VolumeError::Foreign { path, what: "an image without a record" }),
    }
}

/// Removes the snapshot; one that is not there counts as removed.
pub async fn delete(driver: &Driver, id: &SnapshotId) -> Result<()> {
    let Some(record) = driver.pool.snapshots.get(id) else {
        // An earlier call may have failed at its very last step.
        return driver.pool.snapshots.remove_dir(id).await;
    };
    plan::member_of(id, &record, group_of(driver, &record).as_deref())?;
    remove(driver, id, &record).await
}

async fn remove(driver: &Driver, id: &SnapshotId, record: &SnapshotRecord) -> Result<()> {
    if record.phase != Phase::Deleting {
        driver.point("local.delete-snapshot.before-record");
        let leaving = SnapshotRecord { phase: Phase::Deleting, ..record.clone() };
        unless_full(driver.pool.snapshots.put(id, leaving).await)?;
    }
    erase(driver, id).await
}

/// A full pool must not keep what is in it from being removed. A crash without the mark leaves a record whose image
/// is gone, and the repeat of the call removes that just as well.
pub fn unless_full(marked: Result<()>) -> Result<()> {
    match marked {
        Err(error) if error.code() == Code::ResourceExhausted => Ok(()),
        marked => marked,
    }
}

/// Removes what a record, this one or that of the group, says is on its way out. The record goes after the
/// image, so that a crash in between leaves something that still says what it is.
pub async fn erase(driver: &Driver, id: &SnapshotId) -> Result<()> {
    driver.point("local.delete-snapshot.before-image");
    driver.host.disk.remove_file(&driver.pool.snapshot_image(id)).await.during("remove image")?;
    driver.point("local.delete-snapshot.after-image");
    driver.pool.snapshots.forget(id).await?;
    driver.point("local.delete-snapshot.after-record");
    driver.pool.snapshots.remove_dir(id).await?;
    driver.point("local.delete-snapshot.after-dir");
    Ok(())
}

/// Removes a snapshot that nobody was promised. It goes through `Deleting`, as the record on disk may say
/// `Ready` although writing it seemed to fail.
pub async fn discard(driver: &Driver, id: &SnapshotId) {
    let Some(record) = driver.pool.snapshots.get(id) else { return };
    if let Err(error) = remove(driver, id, &record).await {
        tracing::warn!(snapshot = %id, error = chain(&error), "half a snapshot stays until the next start");
    }
}

pub fn group_of(driver: &Driver, record: &SnapshotRecord) -> Option<std::sync::Arc<GroupRecord>> {
    driver.pool.groups.get(record.group.as_ref()?)
}

/// A snapshot that callers may use.
pub fn ready(driver: &Driver, id: &SnapshotId) -> Result<std::sync::Arc<SnapshotRecord>> {
    let shows =
        |record: &std::sync::Arc<SnapshotRecord>| plan::visible(record, group_of(driver, record).as_deref());
    driver.pool.snapshots.refuse_quarantined(id)?;
    let found = driver.pool.snapshots.get(id).filter(shows);
    found.ok_or_else(|| super::parse::snapshot::gone(id))
}
