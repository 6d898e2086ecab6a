//! NodePublishVolume and NodeUnpublishVolume: the target path a workload sees.

use std::collections::BTreeSet;
use std::path::Path;

use bowline_host::kernel::{self, Mount};

use super::config::NamedNode;
use super::driver::Driver;
use super::ephemeral;
use super::mounts::{self, Owner, Seen};
use super::parse::{NodePublishVolume, StageVolume, Undo};
use super::plan::{self, NodePublish};
use super::record::VolumeRecord;
use super::{prepare, stage};
use crate::capability::Mode;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;
use crate::place;
use crate::targets::{self, TARGET_MODE};

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn publish(driver: &Driver, node: &NamedNode, want: NodePublishVolume) -> Result<()> {
    let target = place::to_use(&driver.host, &driver.config.pool, &want.target, "target_path").await?;
    let staging = place::as_mounted(&driver.host, &want.staging).await;
    let want = NodePublishVolume { staging, target, ..want };
    let have = driver.pool.ready(&want.id)?;
    let disk = &driver.host.disk;
    let seen = look(driver, &want, &have).await?;
    let decided = match plan::node_publish(&want, &have, &seen, &node.id) {
        Err(VolumeError::StagingLost { id, path }) => {
            let again = plan::restage(&want, &have, &seen, &node.id);
            let again = again.ok_or(VolumeError::StagingLost { id, path })?;
            recover(driver, node, &want, again).await?
        }
        decided => decided?,
    };
    let have = driver.pool.ready(&want.id)?;
    // On the staged filesystem, so that nobody sees a target before it has its group.
    stage::set_group(driver, &want.staging, plan::target_group(&want, &have, &node.id)).await?;
    match decided {
        NodePublish::Already => Ok(()),
        NodePublish::Directory { read_only } => {
            driver.point("local.node-publish.before-target");
            disk.create_dir_all(&want.target, TARGET_MODE).await.during("create target directory")?;
            let bound = driver.host.kernel.bind_confined(&want.staging, &want.target, read_only);
            bind(driver, &want.target, bound).await
        }
        NodePublish::Device { device } => {
            driver.point("local.node-publish.before-target");
            disk.create_file(&want.target).await.during("create target file")?;
            // Never `nodev`: the device is what the workload asked for.
            bind(driver, &want.target, driver.host.kernel.bind(&device, &want.target, false)).await
        }
    }
}

async fn look(driver: &Driver, want: &NodePublishVolume, have: &VolumeRecord) -> Result<Seen> {
    match want.capability.mode == Mode::SingleWriter {
        true => Seen::look(driver, &want.id).await,
        false => Seen::glance(driver, &want.id, plan::places(have, &want.target)).await,
    }
}

/// Mounts a staged filesystem again that was unmounted behind this driver's back: callers never stage what they know to
/// be staged.
async fn recover(
    driver: &Driver,
    node: &NamedNode,
    want: &NodePublishVolume,
    again: StageVolume,
) -> Result<NodePublish> {
    tracing::warn!(
        volume = %want.id, path = %want.staging.display(), "staged filesystem was unmounted and is mounted again"
    );
    stage::stage(driver, node, again).await?;
    let have = driver.pool.ready(&want.id)?;
    let seen = look(driver, want, &have).await?;
    plan::node_publish(want, &have, &seen, &node.id)
}

async fn bind(
    driver: &Driver,
    target: &Path,
    binding: impl Future<Output = kernel::Result<()>>,
) -> Result<()> {
    driver.point("local.node-publish.before-bind");
    let bound = binding.await.during("bind to target");
    if bound.is_err() {
        targets::remove_unused(&driver.host, target).await;
    }
    driver.point("local.node-publish.after-bind");
    bound
}

/// Takes the volume off the target and removes it. Works from the mount table alone, so a target whose
/// filesystem answers every stat with an error goes like any other.
pub async fn unpublish(driver: &Driver, want: Undo) -> Result<()> {
    let path = place::to_undo(&driver.host, &driver.config.pool, &want.path, "target_path").await?;
    let want = Undo { path, ..want };
    let have = want.id.as_ref().and_then(|id| driver.pool.volumes.get(id));
    match (&want.id, have) {
        (Some(id), Some(have)) if have.ephemeral => {
            ephemeral::unpublish(driver, id, &have, &want.path).await?;
        }
        (Some(id), Some(_)) => {
            driver.point("local.node-unpublish.before-unmount");
            let seen = Seen::glance(driver, id, BTreeSet::new()).await?;
            unmount_all(driver, &seen, &want.path).await?;
        }
        (Some(id), None) if driver.pool.volumes.is_quarantined(id) => {
            take_down_quarantined(driver, id, &want.path).await?;
        }
        _ => targets::refuse_mounted(&driver.host, &want).await?,
    }
    driver.point("local.node-unpublish.before-remove");
    targets::remove(&driver.host, &want.path).await?;
    driver.point("local.node-unpublish.after-remove");
    Ok(())
}

/// Takes a volume in quarantine off a path. It has no record that tells which node has it staged, or whether it is
/// ephemeral; what the kernel shows of its image is enough. The device goes when nothing shows it any more: no call may
/// come after this one.
pub async fn take_down_quarantined(driver: &Driver, id: &VolumeId, path: &Path) -> Result<()> {
    driver.point("local.quarantined.before-unmount");
    let seen = Seen::glance(driver, id, BTreeSet::new()).await?;
    unmount_all(driver, &seen, path).await?;
    driver.point("local.quarantined.before-detach");
    let seen = Seen::look(driver, id).await?;
    if seen.uses_besides(Path::new("")).next().is_some() {
        return Ok(());
    }
    driver.claims.release(id);
    match &seen.device {
        Some(device) => prepare::detach(driver, id, device).await,
        None => Ok(()),
    }
}

/// Unmounts until nothing of this volume shows at the path.
pub async fn unmount_all(driver: &Driver, seen: &Seen, path: &Path) -> Result<()> {
    let ours = |mount: &Mount| seen.owner(mount) != Owner::Foreign;
    match targets::unmount_all(&driver.host, path, ours).await {
        // A device that was detached behind our back belongs to no volume any more, but what shows it has to go.
        Err(VolumeError::Foreign { .. }) => {
            let loops = driver.host.kernel.loops().await.during("list loop devices")?;
            let ours_or_stale = |mount: &Mount| ours(mount) || mounts::is_stale(mount, &loops);
            targets::unmount_all(&driver.host, path, ours_or_stale).await
        }
        done => done,
    }
}
