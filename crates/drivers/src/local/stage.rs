//! NodeStageVolume and NodeUnstageVolume.

use std::path::{Path, PathBuf};

use bowline_host::disk::Kind;

use super::config::NamedNode;
use super::driver::Driver;
use super::mounts::Seen;
use super::parse::{StageVolume, Undo};
use super::plan::{self, FirstUse, Stage};
use super::record::{Contents, Staging, VolumeRecord};
use super::target;
use crate::capability::{AccessType, FsType, MountFlags};
use crate::error::{During, VolumeError, chain};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// Attaches the volume and, unless it is for block access, mounts its filesystem at the staging path.
pub async fn stage(driver: &Driver, node: &NamedNode, want: StageVolume) -> Result<()> {
    let have = driver.pool.ready(&want.id)?;
    let seen = Seen::look(&driver.host, &driver.pool.image(&want.id)).await?;
    let done = match plan::stage(&want, &have, &seen, &node.id)? {
        Stage::Already => return Ok(()),
        Stage::Block(staging) => stage_block(driver, node, &want.id, &have, staging, &seen).await,
        Stage::Share { from, staging } => share(driver, node, &want.id, &have, from, staging).await,
        Stage::Mount(staging, fs) => {
            let flags = match want.capability.access {
                AccessType::Mount { flags, .. } => flags,
                AccessType::Block => MountFlags::default(),
            };
            Mounting { driver, node, id: &want.id, fs, flags }.run(&have, staging).await
        }
    };
    if done.is_err() {
        // A caller told of a final failure forgets the volume without unstaging it. A device left attached
        // would then stand in the way of its deletion for ever.
        release(driver, &want.id).await;
    }
    done
}

async fn stage_block(
    driver: &Driver,
    node: &NamedNode,
    id: &VolumeId,
    have: &VolumeRecord,
    staging: Staging,
    seen: &Seen,
) -> Result<()> {
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
    driver.point("local.node-stage.block.before-record");
    save(driver, id, have, VolumeRecord { contents, ..staged(have, node, staging) }).await?;
    driver.point("local.node-stage.block.before-attach");
    attach(driver, id, read_only).await?;
    driver.point("local.node-stage.block.after-attach");
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
) -> Result<()> {
    let (path, read_only) = (staging.path.clone(), staging.read_only);
    refuse_odd_path(driver, &path).await?;
    driver.point("local.node-stage.share.before-record");
    save(driver, id, have, staged(have, node, staging)).await?;
    driver.point("local.node-stage.share.before-bind");
    driver.host.kernel.bind(&from, &path, read_only).await.during("bind the staged filesystem")?;
    driver.point("local.node-stage.share.after-bind");
    Ok(())
}

/// The caller makes the staging directory.
async fn refuse_odd_path(driver: &Driver, path: &Path) -> Result<()> {
    match driver.host.disk.kind(path).await.during("look at staging path")? {
        Some(Kind::Dir) => Ok(()),
        _ => Err(VolumeError::Foreign { path: path.to_owned(), what: "not a directory" }),
    }
}

/// The record with one more staging.
fn staged(have: &VolumeRecord, node: &NamedNode, staging: Staging) -> VolumeRecord {
    let mut record = have.clone();
    record.staged.insert(node.id.clone(), staging);
    record
}

/// The steps from an image to a mounted filesystem.
struct Mounting<'a> {
    driver: &'a Driver,
    node: &'a NamedNode,
    id: &'a VolumeId,
    fs: FsType,
    flags: MountFlags,
}

impl Mounting<'_> {
    async fn run(&self, have: &VolumeRecord, staging: Staging) -> Result<()> {
        let path = staging.path.clone();
        refuse_odd_path(self.driver, &path).await?;
        self.driver.point("local.node-stage.before-record");
        let record = staged(have, self.node, staging);
        save(self.driver, self.id, have, record.clone()).await?;
        if let Contents::Formatting(_) = record.contents {
            // `begin_again` may have died between removing the old image and making the new one.
            self.driver.pool.make_image(self.id, record.capacity).await?;
        }
        self.driver.point("local.node-stage.before-attach");
        let device = attach(self.driver, self.id, false).await?;
        self.driver.point("local.node-stage.before-probe");
        let device = self.prepare(record, device).await?;
        self.driver.point("local.node-stage.before-mount");
        let kernel = &self.driver.host.kernel;
        kernel.mount(&device, &path, self.fs.as_str(), &self.flags.0).await.during("mount filesystem")?;
        self.driver.point("local.node-stage.after-mount");
        Ok(())
    }

    /// Leaves a sound filesystem on the device.
    async fn prepare(&self, record: VolumeRecord, device: PathBuf) -> Result<PathBuf> {
        let kernel = &self.driver.host.kernel;
        let probe = kernel.content(&device).await.during("probe device")?;
        let read_only = self.flags.read_only();
        let device = match plan::first_use(self.id, record.contents, &probe, self.fs, read_only)? {
            FirstUse::Mount => {
                let contents = match record.contents {
                    Contents::Raw => Contents::Raw,
                    Contents::Blank
                    | Contents::Formatting(_)
                    | Contents::Copied(_)
                    | Contents::Formatted(_) => Contents::Formatted(self.fs),
                };
                save(self.driver, self.id, &record, VolumeRecord { contents, ..record.clone() }).await?;
                if !read_only {
                    kernel.check_filesystem(&device, self.fs.as_str()).await.during("check filesystem")?;
                }
                return Ok(device);
            }
            FirstUse::BeginAgain => self.begin_again(&record, &device).await?,
            FirstUse::Format => device,
        };
        self.format(record, &device).await?;
        Ok(device)
    }

    /// Swaps a half-formatted image for an empty one, so that mkfs meets an empty device, as it insists on.
    async fn begin_again(&self, record: &VolumeRecord, device: &Path) -> Result<PathBuf> {
        detach(self.driver, self.id, device).await?;
        self.driver.point("local.node-stage.before-renew");
        self.driver.pool.renew_image(self.id, record.capacity).await?;
        self.driver.point("local.node-stage.after-renew");
        attach(self.driver, self.id, false).await
    }

    /// The marker before mkfs and the mark after it are what tells a half-made filesystem from a used one.
    async fn format(&self, record: VolumeRecord, device: &Path) -> Result<()> {
        self.driver.point("local.node-stage.before-marker");
        let marked = VolumeRecord { contents: Contents::Formatting(self.fs), ..record.clone() };
        save(self.driver, self.id, &record, marked.clone()).await?;
        self.driver.point("local.node-stage.before-mkfs");
        let kernel = &self.driver.host.kernel;
        kernel.make_filesystem(device, self.fs.as_str(), &[]).await.during("make filesystem")?;
        self.driver.point("local.node-stage.after-mkfs");
        let done = VolumeRecord { contents: Contents::Formatted(self.fs), ..marked };
        self.driver.pool.volumes.put(self.id, done).await?;
        self.driver.point("local.node-stage.after-marker");
        Ok(())
    }
}

/// Unmounts and detaches. What is not staged counts as done.
pub async fn unstage(driver: &Driver, node: &NamedNode, want: Undo) -> Result<()> {
    let known = want.id.clone().and_then(|id| Some((driver.pool.volumes.get(&id)?, id)));
    let Some((have, id)) = known else {
        return target::refuse_mounted(driver, &want).await;
    };
    let seen = Seen::look(&driver.host, &driver.pool.image(&id)).await?;
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
        driver.pool.volumes.put(&id, record).await?;
    }
    driver.point("local.node-unstage.before-detach");
    if let Some(device) = seen.device.as_ref().filter(|_| !shared) {
        detach(driver, &id, device).await?;
    }
    driver.health.release(&id);
    driver.point("local.node-unstage.after-detach");
    Ok(())
}

/// Detaches after a failed staging, unless something shows the device.
async fn release(driver: &Driver, id: &VolumeId) {
    let Ok(seen) = Seen::look(&driver.host, &driver.pool.image(id)).await else { return };
    let Some(device) = seen.device.as_deref() else { return };
    if seen.uses_besides(Path::new("")).next().is_some() {
        return;
    }
    if let Err(error) = detach(driver, id, device).await {
        tracing::warn!(error = chain(&error), "loop device stays attached after a failed staging");
    }
}

async fn attach(driver: &Driver, id: &VolumeId, read_only: bool) -> Result<PathBuf> {
    driver.host.kernel.loop_attach(&driver.pool.image(id), read_only).await.during("attach loop device")
}

/// Takes the device away, and notes that it has not vanished by itself.
async fn detach(driver: &Driver, id: &VolumeId, device: &Path) -> Result<()> {
    driver.host.kernel.loop_detach(device).await.during("detach loop device")?;
    driver.health.release(id);
    Ok(())
}

/// Writes a record only when it changed: staging again after the first time costs no disk sync.
async fn save(driver: &Driver, id: &VolumeId, old: &VolumeRecord, new: VolumeRecord) -> Result<()> {
    if *old == new { Ok(()) } else { driver.pool.volumes.put(id, new).await }
}
