//! NodePublishVolume and NodeUnpublishVolume: the target path a workload sees.

use std::path::Path;

use bowline_host::disk::Kind;

use super::config::NamedNode;
use super::driver::Driver;
use super::mounts::{Owner, Seen};
use super::parse::{NodePublishVolume, Undo};
use super::plan::{self, NodePublish};
use crate::error::{During, VolumeError};

type Result<T> = std::result::Result<T, VolumeError>;

/// Most mounts ever taken off one path; more means that something keeps adding them.
const STACK_MAX: usize = 16;
const TARGET_MODE: u32 = 0o750;

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
        // Nobody unpublishes what was never published, so the path would stay.
        if let Err(error) = remove_target(driver, target).await {
            tracing::warn!(error = crate::error::chain(&error), "target stays after a failed bind");
        }
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
        None => refuse_mounted(driver, &want).await?,
    }
    driver.point("local.node-unpublish.before-remove");
    remove_target(driver, &want.path).await?;
    driver.point("local.node-unpublish.after-remove");
    Ok(())
}

/// Unmounts until nothing of this volume shows at the path. Two racing binds may have stacked there; a mount
/// that is not this volume's is somebody else's to remove.
pub async fn unmount_all(driver: &Driver, seen: &Seen, path: &Path) -> Result<()> {
    let kernel = &driver.host.kernel;
    for _ in 0..STACK_MAX {
        match kernel.mount_at(path).await.during("look for a mount")? {
            None => return Ok(()),
            // A device that vanished must not keep its targets from going: the file is all that is left of it.
            Some(mount) if seen.owner(&mount) == Owner::Foreign && !seen.is_stale_device(&mount) => {
                return Err(foreign(path));
            }
            Some(_) => kernel.unmount(path).await.during("unmount")?,
        }
        driver.point("local.unmount.after");
    }
    Err(VolumeError::Foreign { path: path.to_owned(), what: "mounted again and again" })
}

/// For volumes this driver does not know: done when nothing is there, refused when something is, since it
/// cannot be ours to unmount.
pub async fn refuse_mounted(driver: &Driver, want: &Undo) -> Result<()> {
    match driver.host.kernel.mount_at(&want.path).await.during("look for a mount")? {
        Some(_) => Err(VolumeError::NotFound { id: want.asked.clone() }),
        None => Ok(()),
    }
}

fn foreign(path: &Path) -> VolumeError {
    VolumeError::Foreign { path: path.to_owned(), what: "a mount point of something else" }
}

/// Removes an empty directory or an empty file. Anything else holds data that is not ours to delete.
async fn remove_target(driver: &Driver, path: &Path) -> Result<()> {
    let disk = &driver.host.disk;
    match disk.kind(path).await.during("look at target")? {
        None => Ok(()),
        Some(Kind::Dir) => disk.remove_dir(path).await.during("remove target directory"),
        Some(Kind::File) if disk.length(path).await.during("look at target")? == 0 => {
            disk.remove_file(path).await.during("remove target file")
        }
        Some(Kind::File | Kind::Symlink | Kind::Socket | Kind::BlockDevice | Kind::Other) => {
            Err(VolumeError::Foreign { path: path.to_owned(), what: "not a target this driver makes" })
        }
    }
}
