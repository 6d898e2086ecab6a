//! NodePublishVolume and NodeUnpublishVolume: the target path a workload sees.

use std::path::Path;

use super::config::NamedNode;
use super::driver::Driver;
use super::mounts::{Owner, Seen};
use super::parse::{NodePublishVolume, Undo};
use super::plan::{self, NodePublish};
use crate::error::{During, VolumeError};
use crate::targets::{self, TARGET_MODE};

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn publish(driver: &Driver, node: &NamedNode, want: NodePublishVolume) -> Result<()> {
    let have = driver.pool.ready(&want.id)?;
    let seen = Seen::look(&driver.host, &driver.pool.image(&want.id)).await?;
    let disk = &driver.host.disk;
    match plan::node_publish(&want, &have, &seen, &node.id)? {
        NodePublish::Already => Ok(()),
        NodePublish::Directory { read_only } => {
            driver.point("local.node-publish.before-target");
            disk.create_dir_all(&want.target, TARGET_MODE).await.during("create target directory")?;
            bind(driver, &want.staging, &want.target, read_only).await
        }
        NodePublish::Device { device } => {
            driver.point("local.node-publish.before-target");
            disk.create_file(&want.target).await.during("create target file")?;
            bind(driver, &device, &want.target, false).await
        }
    }
}

async fn bind(driver: &Driver, source: &Path, target: &Path, read_only: bool) -> Result<()> {
    driver.point("local.node-publish.before-bind");
    let bound = driver.host.kernel.bind(source, target, read_only).await.during("bind to target");
    if bound.is_err() {
        targets::remove_unused(&driver.host, target).await;
    }
    driver.point("local.node-publish.after-bind");
    bound
}

/// Takes the volume off the target and removes it. Works from the mount table alone, so a target whose
/// filesystem answers every stat with an error goes like any other.
pub async fn unpublish(driver: &Driver, want: Undo) -> Result<()> {
    match want.id.clone().filter(|id| driver.pool.volumes.get(id).is_some()) {
        Some(id) => {
            driver.point("local.node-unpublish.before-unmount");
            let seen = Seen::look(&driver.host, &driver.pool.image(&id)).await?;
            unmount_all(driver, &seen, &want.path).await?;
        }
        None => targets::refuse_mounted(&driver.host, &want).await?,
    }
    driver.point("local.node-unpublish.before-remove");
    targets::remove(&driver.host, &want.path).await?;
    driver.point("local.node-unpublish.after-remove");
    Ok(())
}

/// Unmounts until nothing of this volume shows at the path.
pub async fn unmount_all(driver: &Driver, seen: &Seen, path: &Path) -> Result<()> {
    targets::unmount_all(&driver.host, path, |mount| seen.owner(mount) != Owner::Foreign).await
}
