//! CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot: all of it or nothing.

use std::collections::BTreeSet;

use super::super::driver::Driver;
use super::super::moment;
use super::super::parse::snapshot::CreateGroup;
use super::super::plan::snapshot::{self as plan, CutGroup};
use super::super::record::{GroupRecord, Phase, SnapshotRecord};
use super::super::snapshot;
use crate::error::{VolumeError, chain};
use crate::id::{GroupId, SnapshotId};

type Result<T> = std::result::Result<T, VolumeError>;

/// Cuts every volume at one moment, or returns the group that is there.
///
/// # Crash safety
/// The record of the group is written as `Creating` before its first member and as `Ready` after its last, and
/// members show only then. A failure removes all of it at once, a crash at the next start.
pub async fn create(driver: &Driver, want: CreateGroup) -> Result<GroupRecord> {
    let pool = &driver.pool;
    let have = pool.groups.get(&want.id);
    let volume = |id: &_| pool.volumes.get(id);
    let planned = plan::create_group(&want, have.as_deref(), volume, |id| pool.snapshots.get(id))?;
    let (group, members) = match planned {
        CutGroup::Reuse(group) => return Ok(group),
        CutGroup::Make(group, members) => (group, members),
    };
    for (id, _) in &members {
        if pool.snapshots.get(id).is_none() {
            snapshot::refuse_foreign(driver, id).await?;
        }
    }
    let made = make(driver, &want.id, group, members).await;
    if made.is_err() {
        discard(driver, &want.id).await;
    }
    made
}

async fn make(
    driver: &Driver,
    id: &GroupId,
    group: GroupRecord,
    members: Vec<(SnapshotId, SnapshotRecord)>,
) -> Result<GroupRecord> {
    driver.point("local.create-group.before-dir");
    driver.pool.groups.make_dir(id).await?;
    driver.point("local.create-group.before-record");
    driver.pool.groups.put(id, group.clone()).await?;
    for (id, record) in &members {
        snapshot::begin(driver, id, record).await?;
    }
    let copies: Vec<_> =
        members.iter().filter_map(|(id, record)| snapshot::copy_of(driver, id, record)).collect();
    let created = moment::copy(driver, &copies).await?;
    for (id, record) in members {
        snapshot::finish(driver, &id, SnapshotRecord { created, ..record }).await?;
    }
    driver.point("local.create-group.before-ready");
    let group = GroupRecord { phase: Phase::Ready, created, ..group };
    driver.pool.groups.put(id, group.clone()).await?;
    driver.point("local.create-group.after-ready");
    Ok(group)
}

/// Removes the group with all its members. `known` is what was looked up before its members were held.
pub async fn delete(
    driver: &Driver,
    id: &GroupId,
    known: Option<&GroupRecord>,
    named: &BTreeSet<String>,
) -> Result<()> {
    let Some(have) = driver.pool.groups.get(id) else {
        // An earlier call may have failed at its very last step.
        return driver.pool.groups.remove_dir(id).await;
    };
    if known.is_none_or(|known| known.snapshots != have.snapshots) {
        return Err(VolumeError::Busy { what: id.key() });
    }
    // Nobody was told the members of a group that is half made.
    if have.phase != Phase::Creating {
        plan::same_members(id, &have, named)?;
    }
    remove(driver, id, &have).await
}

async fn remove(driver: &Driver, id: &GroupId, have: &GroupRecord) -> Result<()> {
    if have.phase != Phase::Deleting {
        driver.point("local.delete-group.before-record");
        let leaving = GroupRecord { phase: Phase::Deleting, ..have.clone() };
        snapshot::unless_full(driver.pool.groups.put(id, leaving).await)?;
    }
    for member in &have.snapshots {
        match driver.pool.snapshots.get(member) {
            Some(record) if record.group.as_ref() == Some(id) => snapshot::erase(driver, member).await?,
            // Not begun, or another's.
            Some(_) => {}
            None => driver.pool.snapshots.remove_dir(member).await?,
        }
    }
    driver.point("local.delete-group.after-members");
    driver.pool.groups.forget(id).await?;
    driver.point("local.delete-group.after-record");
    driver.pool.groups.remove_dir(id).await?;
    driver.point("local.delete-group.after-dir");
    Ok(())
}

/// Removes a group that nobody was promised, or that is on its way out.
pub async fn discard(driver: &Driver, id: &GroupId) {
    let Some(record) = driver.pool.groups.get(id) else { return };
    if let Err(error) = remove(driver, id, &record).await {
        tracing::warn!(group = %id, error = chain(&error), "half a group stays until the next start");
    }
}
