//! NodePublishVolume and NodeUnpublishVolume: the target path a workload sees.

use bowline_host::disk::Kind;

use super::driver::Driver;
use super::mounts::Seen;
use super::parse::NodePublishVolume;
use super::plan::{self, Create, Publish};
use super::provision;
use super::record::ShareRecord;
use crate::error::{During, VolumeError, chain};
use crate::fields::Undo;
use crate::id::VolumeId;
use crate::place;
use crate::targets::{self, TARGET_MODE};

/// Where requests name the target.
pub const TARGET_FIELD: &str = "target_path";

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn publish(driver: &Driver, want: NodePublishVolume) -> Result<()> {
    if want.inline.is_none() {
        driver.ready(&want.id)?;
    }
    let want = at_real_place(driver, want).await?;
    if want.inline.is_none() {
        let have = driver.ready(&want.id)?;
        return show(driver, &want, &have).await;
    }
    let plan = plan::inline(&want, driver.shares.get(&want.id).as_deref())?;
    let fresh = !matches!(plan, Create::Reuse(_));
    let shown = match provision::carry_out(driver, &want.id, plan).await {
        Ok(have) => show(driver, &want, &have).await,
        Err(error) => Err(error),
    };
    if shown.is_err() && fresh {
        give_up(driver, &want.id).await;
    }
    shown
}

/// A target below a link is where the link leads; a link itself would lead the mount elsewhere.
async fn at_real_place(driver: &Driver, want: NodePublishVolume) -> Result<NodePublishVolume> {
    let pool = &driver.config.pool;
    let target = place::to_use(&driver.host, pool, &want.target, TARGET_FIELD).await?;
    match driver.host.disk.kind(&target).await.during("look at target")? {
        None | Some(Kind::Dir) => Ok(NodePublishVolume { target, ..want }),
        Some(_) => Err(VolumeError::Foreign { path: target, what: "not a directory" }),
    }
}

/// Brings the directory to the target.
async fn show(driver: &Driver, want: &NodePublishVolume, have: &ShareRecord) -> Result<()> {
    let (disk, data) = (&driver.host.disk, driver.data(&want.id));
    let seen = Seen::look(&driver.host, data.clone()).await?;
    let Publish::Bind { record, read_only } = plan::publish(want, have, &seen)? else { return Ok(()) };
    if disk.kind(&data).await.during("look at directory")? != Some(Kind::Dir) {
        return Err(VolumeError::Vanished { id: want.id.clone(), path: data });
    }
    if record != *have {
        driver.point("share.node-publish.before-record");
        driver.shares.put(&want.id, record).await?;
    }
    if let Some(group) = want.capability.group {
        driver.point("share.node-publish.before-group");
        disk.set_group(&data, group).await.during("give directory to group")?;
    }
    driver.point("share.node-publish.before-target");
    disk.create_dir_all(&want.target, TARGET_MODE).await.during("create target directory")?;
    driver.point("share.node-publish.before-bind");
    let bound = driver.host.kernel.bind_confined(&data, &want.target, read_only).await;
    let bound = bound.during("bind to target");
    if bound.is_err() {
        targets::remove_unused(&driver.host, &want.target).await;
    }
    driver.point("share.node-publish.after-bind");
    bound
}

/// Removes an inline volume that no workload has seen: nobody unpublishes what was never published.
async fn give_up(driver: &Driver, id: &VolumeId) {
    if let Err(error) = provision::delete(driver, id).await {
        tracing::warn!(volume = %id, error = chain(&error), "inline volume stays after a failed publish");
    }
}

/// Takes the volume off the target and removes it. An inline volume goes, too.
pub async fn unpublish(driver: &Driver, want: Undo) -> Result<()> {
    let path = place::to_undo(&driver.host, &driver.config.pool, &want.path, TARGET_FIELD).await?;
    let want = Undo { path, ..want };
    let have = want.id.as_ref().and_then(|id| driver.shares.get(id));
    // A share in quarantine has no record; what the mount table shows of its directory is enough.
    let known = want.id.as_ref().filter(|id| have.is_some() || driver.shares.is_quarantined(id));
    driver.point("share.node-unpublish.before-unmount");
    match known {
        Some(id) => {
            let seen = Seen::look(&driver.host, driver.data(id)).await?;
            targets::unmount_all(&driver.host, &want.path, |mount| seen.is_share(mount)).await?;
        }
        None => {
            targets::refuse_mounted(&driver.host, &want).await?;
            clear_place(driver, &want).await;
        }
    }
    driver.point("share.node-unpublish.before-remove");
    targets::remove(&driver.host, &want.path).await?;
    driver.point("share.node-unpublish.after-remove");
    match (known, have) {
        (Some(id), Some(record)) if record.inline.as_ref() == Some(&want.path) => {
            provision::delete(driver, id).await
        }
        _ => Ok(()),
    }
}

/// The last step of removing an inline volume may have failed, after its record had gone. Only an empty directory
/// goes; one that holds anything is nobody's volume and no reason to keep a target.
async fn clear_place(driver: &Driver, want: &Undo) {
    let Some(id) = &want.id else { return };
    if let Err(error) = driver.shares.remove_dir(id).await {
        tracing::warn!(volume = %id, error = chain(&error), "directory without a record stays");
    }
}
