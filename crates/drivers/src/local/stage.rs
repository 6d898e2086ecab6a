//! NodeStageVolume and NodeUnstageVolume.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_host::disk::Kind;
use bowline_host::kernel::Mount;

use super::config::NamedNode;
use super::driver::Driver;
use super::grow::{self, Growing};
use super::mounts::{Owner, Seen};
use super::parse::{StageVolume, Undo};
use super::plan::{self, Stage};
use super::prepare::{self, Preparing, attach, detach, save};
use super::record::{Contents, Staging, VolumeRecord};
use super::{damage, full, target};
use crate::capability::{AccessType, FsType, MountFlags};
use crate::error::{During, VolumeError, chain};
use crate::id::VolumeId;
use crate::mount_options;
use crate::place;
use crate::targets;

type Result<T> = std::result::Result<T, VolumeError>;

/// Attaches the volume and, unless it is for block access, mounts its filesystem at the staging path.
pub async fn stage(driver: &Driver, node: &NamedNode, want: StageVolume) -> Result<()> {
    let path = place::to_use(&driver.host, &driver.config.pool, &want.path, "staging_target_path").await?;
    let want = StageVolume { path, ..want };
    let have = driver.pool.ready(&want.id)?;
    let seen = look(driver, &want, &have).await?;
    let done = match plan::stage(&want, &have, &seen, &node.id)? {
        Stage::Already => {
            // Growth and the group may be what an earlier try did not get to.
            grow::staged(driver, &want.id, &want.path, &seen).await?;
            return set_group(driver, &want.path, plan::group(&want, &have, &node.id)).await;
        }
        Stage::Block(staging) => stage_block(driver, node, &want.id, &have, staging, &seen).await,
        Stage::Share { from, staging } => share(driver, node, &want.id, &have, from, staging, &seen).await,
        Stage::Mount(staging, fs) => mount(driver, node, &want, &have, staging, fs, &seen).await,
    };
    let done = match done {
        Ok(()) => hand_over(driver, &want, plan::group(&want, &have, &node.id)).await,
        failed => failed,
    };
    if done.is_err() && plan::elsewhere(&have, &seen, &node.id).next().is_none() {
        // A caller told of a final failure forgets the volume without unstaging it. A device left attached
        // would then stand in the way of its deletion for ever; but another node's it is not ours to take.
        release(driver, &want.id).await;
    }
    match done {
        Err(error) => Err(full::explain(driver, error).await),
        Ok(()) => Ok(()),
    }
}

/// A filesystem whose image is attached already may be mounted anywhere.
async fn look(driver: &Driver, want: &StageVolume, have: &VolumeRecord) -> Result<Seen> {
    if let AccessType::Block = want.capability.access {
        return Seen::look(driver, &want.id).await;
    }
    let seen = Seen::glance(driver, &want.id, plan::places(have, &want.path)).await?;
    if seen.device.is_some() { Seen::look(driver, &want.id).await } else { Ok(seen) }
}

/// Mounts the filesystem at the staging path.
async fn mount(
    driver: &Driver,
    node: &NamedNode,
    want: &StageVolume,
    have: &VolumeRecord,
    staging: Staging,
    fs: FsType,
    seen: &Seen,
) -> Result<()> {
    let flags = match &want.capability.access {
        AccessType::Mount { flags, .. } => flags,
        AccessType::Block => &MountFlags::default(),
    };
    // Before anything is attached or made; asked again at the mount itself.
    mount_options::check(flags, Some(fs))?;
    damage::refuse(driver, &want.id, have).await?;
    refuse_odd_path(driver, &want.path).await?;
    driver.point("local.node-stage.before-record");
    let record = staged(have, node, staging, seen);
    save(driver, &want.id, have, record.clone()).await?;
    let device = Preparing { driver, id: &want.id, fs, read_only: flags.read_only() }.run(record).await?;
    let (fs_name, read_only) = (fs.as_str(), flags.read_only());
    let growing =
        Growing { driver, id: &want.id, device: &device, target: &want.path, fs: fs_name, read_only };
    growing.before_mount().await?;
    driver.point("local.node-stage.before-mount");
    prepare::mount(driver, &want.id, &device, &want.path, fs, flags).await?;
    driver.point("local.node-stage.after-mount");
    growing.after_mount().await
}

/// Gives what was just mounted to its group, or takes it down again: nobody unstages what failed for good.
async fn hand_over(driver: &Driver, want: &StageVolume, group: Option<u32>) -> Result<()> {
    let given = set_group(driver, &want.path, group).await;
    if given.is_err() {
        driver.host.kernel.unmount(&want.path).await.during("unmount")?;
    }
    given
}

/// Makes everything in a mounted volume belong to a group. Costs one look when it does already.
pub async fn set_group(driver: &Driver, path: &Path, group: Option<u32>) -> Result<()> {
    let Some(group) = group else { return Ok(()) };
    driver.host.disk.set_group(path, group).await.during("give the volume to its group")?;
    driver.point("local.set-group.after");
    Ok(())
}

async fn stage_block(
    driver: &Driver,
    node: &NamedNode,
    id: &VolumeId,
    have: &VolumeRecord,
    staging: Staging,
    seen: &Seen,
) -> Result<()> {
    damage::refuse(driver, id, have).await?;
    let shared = plan::elsewhere(have, seen, &node.id).next().is_some();
    if let Some(device) = seen.device.as_ref().filter(|_| !shared) {
        // Left by a crash; it may have been attached with the other writability.
        detach(driver, id, device).await?;
        driver.point("local.node-stage.block.after-detach");
    }
    let contents = match have.contents {
        Contents::Formatting(_) => {
            driver.pool.renew_image(id, have.capacity).await?;
            Contents::Raw
        }
        Contents::Blank | Contents::Raw => Contents::Raw,
        formatted @ (Contents::Copied(_) | Contents::Formatted(_)) => formatted,
    };
    let read_only = staging.read_only;
    // Before the device is there, since a block staging that has ended would look as if it were in force.
    let ended = VolumeRecord { staged: in_force(have, seen), ..have.clone() };
    save(driver, id, have, ended.clone()).await?;
    driver.point("local.node-stage.block.before-attach");
    let device = attach(driver, id, read_only).await?;
    driver.claims.claim(id, &device);
    driver.point("local.node-stage.block.before-record");
    // After the device is known, and before any user gets it.
    let device = Some(device);
    save(driver, id, &ended, VolumeRecord { contents, device, ..staged(have, node, staging, seen) }).await?;
    driver.point("local.node-stage.block.after-record");
    Ok(())
}

/// Shows the filesystem at a second node's staging path, too.
async fn share(
    driver: &Driver,
    node: &NamedNode,
    id: &VolumeId,
    have: &VolumeRecord,
    from: PathBuf,
    staging: Staging,
    seen: &Seen,
) -> Result<()> {
    let (path, read_only) = (staging.path.clone(), staging.read_only);
    refuse_odd_path(driver, &path).await?;
    driver.point("local.node-stage.share.before-record");
    save(driver, id, have, staged(have, node, staging, seen)).await?;
    driver.point("local.node-stage.share.before-bind");
    let bound = driver.host.kernel.bind_confined(&from, &path, read_only).await;
    bound.during("bind the staged filesystem")?;
    driver.point("local.node-stage.share.after-bind");
    refuse_other(driver, seen, &from, &path).await
}

/// The path that was bound may have led to something else by then. No workload sees the staging path before it is
/// published, so it is enough to look afterwards and to take it off again.
async fn refuse_other(driver: &Driver, seen: &Seen, from: &Path, path: &Path) -> Result<()> {
    let bound = driver.host.kernel.mount_at(path).await.during("look for a mount")?;
    let is_ours = |mount: &Mount| {
        seen.owner(mount) == Owner::Filesystem && seen.at(from).is_some_and(|from| from.root == mount.root)
    };
    if bound.as_ref().is_some_and(is_ours) {
        return Ok(());
    }
    if bound.is_some() {
        driver.host.kernel.unmount(path).await.during("unmount")?;
    }
    Err(VolumeError::Foreign { path: from.to_owned(), what: "no longer a mount of this volume" })
}

/// The caller makes the staging directory.
async fn refuse_odd_path(driver: &Driver, path: &Path) -> Result<()> {
    match driver.host.disk.kind(path).await.during("look at staging path")? {
        Some(Kind::Dir) => Ok(()),
        _ => Err(VolumeError::Foreign { path: path.to_owned(), what: "not a directory" }),
    }
}

/// The record with one more staging, and without those that are over: once the device is attached again, a block
/// staging of another node would look as if it were in force.
fn staged(have: &VolumeRecord, node: &NamedNode, staging: Staging, seen: &Seen) -> VolumeRecord {
    let mut record = VolumeRecord { staged: in_force(have, seen), ..have.clone() };
    record.staged.insert(node.id.clone(), staging);
    record
}

fn in_force(have: &VolumeRecord, seen: &Seen) -> BTreeMap<String, Staging> {
    let stagings = have.staged.iter().filter(|(_, staging)| plan::in_force(staging, seen));
    stagings.map(|(node, staging)| (node.clone(), staging.clone())).collect()
}

/// Unmounts and detaches. What is not staged counts as done.
pub async fn unstage(driver: &Driver, node: &NamedNode, want: Undo) -> Result<()> {
    let path = place::to_undo(&driver.host, &driver.config.pool, &want.path, "staging_target_path").await?;
    let want = Undo { path, ..want };
    let have = want.id.as_ref().and_then(|id| driver.pool.volumes.get(id));
    let (id, have) = match (want.id.clone(), have) {
        (Some(id), Some(have)) => (id, have),
        (Some(id), None) if driver.pool.volumes.is_quarantined(&id) => {
            return target::take_down_quarantined(driver, &id, &want.path).await;
        }
        _ => return targets::refuse_mounted(&driver.host, &want).await,
    };
    let seen = Seen::look(driver, &id).await?;
    let shared = plan::elsewhere(&have, &seen, &node.id).next().is_some();
    // Which node a target belongs to cannot be told; the last one to unstage must leave none.
    if let Some(other) = seen.uses_besides(&want.path).next().filter(|_| !shared) {
        let how = format!("published at `{}`", other.display());
        return Err(VolumeError::InUse { id, how });
    }
    driver.point("local.node-unstage.before-unmount");
    target::unmount_all(driver, &seen, &want.path).await?;
    if have.staged.len() > 1 {
        // While another node keeps the device attached, only the record tells that this one does not use it.
        driver.point("local.node-unstage.before-record");
        let mut record = (*have).clone();
        record.staged.remove(&node.id);
        driver.pool.volumes.put_after_teardown(&id, record).await;
    }
    driver.point("local.node-unstage.before-detach");
    if let Some(device) = seen.device.as_ref().filter(|_| !shared) {
        detach(driver, &id, device).await?;
    }
    driver.health.release(&id);
    driver.point("local.node-unstage.after-detach");
    if !shared {
        forget_device(driver, &id).await;
    }
    Ok(())
}

/// No user is left of the device that a block volume had.
async fn forget_device(driver: &Driver, id: &VolumeId) {
    driver.claims.release(id);
    let Some(have) = driver.pool.volumes.get(id).filter(|have| have.device.is_some()) else { return };
    let record = VolumeRecord { device: None, staged: BTreeMap::new(), ..(*have).clone() };
    driver.pool.volumes.put_after_teardown(id, record).await;
}

/// Detaches after a failure, unless something shows the device.
pub async fn release(driver: &Driver, id: &VolumeId) {
    let Ok(seen) = Seen::look(driver, id).await else { return };
    let Some(device) = seen.device.as_deref() else { return };
    if seen.uses_besides(Path::new("")).next().is_some() {
        return;
    }
    if let Err(error) = detach(driver, id, device).await {
        tracing::warn!(error = chain(&error), "loop device stays attached after a failure");
    }
}
