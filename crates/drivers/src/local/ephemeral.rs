//! Inline ephemeral volumes: made by the NodePublishVolume that first asks for one, gone with its
//! NodeUnpublishVolume.
//!
//! There is no controller call and no staging; the filesystem is mounted straight at the target. Such a volume is
//! the target's alone: it is in no list, and no call for other volumes finds it. Its size counts like any other's.

use std::path::{Path, PathBuf};

use bowline_proto::csi::v1 as csi;

use super::config::NamedNode;
use super::driver::Driver;
use super::mounts::Seen;
use super::parse::{self, CreateVolume};
use super::prepare::{self, Preparing, save};
use super::record::{Contents, Staging, VolumeRecord};
use super::settings::Settings;
use super::{plan, provision, recipe, stage, target};
use crate::capability::{AccessType, Capability, FsType, MountFlags};
use crate::capacity::{MIB, Range};
use crate::error::{During, VolumeError, chain};
use crate::id::{VolumeId, quoted};
use crate::{fields, place, quantity, targets};

type Result<T> = std::result::Result<T, VolumeError>;

/// The remark that marks the call, below the prefix of all remarks.
const REMARK: &str = "ephemeral";
const SIZE: &str = "size";
const DEFAULT_SIZE: u64 = 100 * MIB;

#[derive(Debug)]
pub struct PublishEphemeral {
    pub volume: CreateVolume,
    pub target: PathBuf,
    pub capability: Capability,
    pub read_only: bool,
}

/// Whether the caller wants a volume made for this target.
pub fn is_asked(request: &csi::NodePublishVolumeRequest) -> bool {
    let remark = |(key, value): (&String, &String)| {
        key.strip_prefix(fields::METADATA_PREFIX) == Some(REMARK) && value == "true"
    };
    request.volume_context.iter().any(remark)
}

pub fn parse(request: &csi::NodePublishVolumeRequest, node: &NamedNode) -> Result<PublishEphemeral> {
    let invalid = |field, why: &str| VolumeError::Invalid { field, why: why.to_owned() };
    let id = parse::volume_id(&request.volume_id)?;
    let target = fields::path(&request.target_path, "target_path")?;
    let mut capability = parse::capability(request.volume_capability.as_ref())?;
    let id = id.ok_or_else(|| invalid("volume_id", "not a name that a volume can have"))?;
    if capability.access == AccessType::Block || capability.mode.spans_nodes() {
        return Err(invalid("volume_capability", "an ephemeral volume is a filesystem on one node"));
    }
    let mut settings = fields::settings(request.volume_context.clone());
    let size = match settings.remove(SIZE) {
        None => DEFAULT_SIZE,
        Some(text) => quantity::parse(&text)
            .filter(|size| *size > 0)
            .ok_or_else(|| invalid("volume_context", "`size` is not a quantity such as `100Mi`"))?,
    };
    if let Some(key) = settings.keys().find(|key| !recipe::KEYS.contains(&key.as_str())) {
        return Err(invalid("volume_context", &format!("unknown key `{}`", quoted(key))));
    }
    recipe::settle(&settings, std::slice::from_mut(&mut capability))?;
    let volume = CreateVolume {
        name: id.to_string(),
        range: Range { required: size, limit: 0 },
        access: parse::access(std::slice::from_ref(&capability))?,
        capabilities: vec![capability.clone()],
        chose_filesystem: true,
        source: None,
        parameters: settings,
        mutable: Settings::default(),
        requisite: vec![node.topology.clone()],
        preferred: Vec::new(),
        ephemeral: true,
        id,
    };
    Ok(PublishEphemeral { volume, target, capability, read_only: request.readonly })
}

/// Makes the volume, unless it is there, and mounts it at the target.
///
/// # Crash safety
/// Every step finds what an earlier try left. A call that fails takes back what it began, because nobody unpublishes
/// what was never published; but only as long as no workload can have seen the volume.
pub async fn publish(driver: &Driver, node: &NamedNode, want: PublishEphemeral) -> Result<()> {
    let target = place::to_use(&driver.host, &driver.config.pool, &want.target, "target_path").await?;
    let id = want.volume.id.clone();
    if driver.pool.volumes.get(&id).is_none() {
        recipe::check(&want.volume.parameters, std::slice::from_ref(&want.capability))?;
    }
    let unseen = driver.pool.volumes.get(&id).is_none_or(|have| have.ephemeral && is_unseen(have.contents));
    let done = make_and_mount(driver, node, want, &target).await;
    match (&done, unseen) {
        (Ok(()), _) => {}
        (Err(_), true) => take_back(driver, &id, &target).await,
        (Err(_), false) => stage::release(driver, &id).await,
    }
    done
}

/// Whether no workload has had the volume: it is mounted only when it is `Formatted`.
fn is_unseen(contents: Contents) -> bool {
    matches!(contents, Contents::Blank | Contents::Formatting(_))
}

async fn make_and_mount(
    driver: &Driver,
    node: &NamedNode,
    want: PublishEphemeral,
    target: &Path,
) -> Result<()> {
    let PublishEphemeral { volume, capability, read_only, .. } = want;
    let id = volume.id.clone();
    let fs = volume.access.filesystem.unwrap_or_default();
    let have = provision::create(driver, volume).await?;
    let seen = Seen::look(driver, &id).await?;
    let read_only = read_only || capability.read_only();
    let staging =
        Staging { path: target.to_owned(), block: false, read_only, capability: capability.digest() };
    if !plan::is_staged(&id, &staging, &have, &seen, &node.id)? {
        if let Some(other) = seen.uses_besides(target).next() {
            return Err(VolumeError::InUse { id, how: format!("published at `{}`", other.display()) });
        }
        driver.point("local.ephemeral.before-target");
        let made = driver.host.disk.create_dir_all(target, targets::TARGET_MODE).await;
        made.during("create target directory")?;
        mount(driver, node, &id, &have, staging, fs, flags(&capability, read_only)).await?;
    }
    stage::set_group(driver, target, capability.group().filter(|_| !read_only)).await
}

async fn mount(
    driver: &Driver,
    node: &NamedNode,
    id: &VolumeId,
    have: &VolumeRecord,
    staging: Staging,
    fs: FsType,
    flags: MountFlags,
) -> Result<()> {
    driver.point("local.ephemeral.before-record");
    let path = staging.path.clone();
    let mut record = have.clone();
    record.staged.insert(node.id.clone(), staging);
    save(driver, id, have, record.clone()).await?;
    // The volume is this call's own, so it is formatted even for somebody who only wants to read.
    let device = Preparing { driver, id, fs, read_only: false }.run(record).await?;
    driver.point("local.ephemeral.before-mount");
    prepare::mount(driver, id, &device, &path, fs, &flags).await?;
    driver.point("local.ephemeral.after-mount");
    Ok(())
}

fn flags(capability: &Capability, read_only: bool) -> MountFlags {
    let AccessType::Mount { flags, .. } = &capability.access else { return MountFlags::default() };
    let mut flags = flags.clone();
    if read_only && !flags.read_only() {
        flags.0.push("ro".into());
    }
    flags
}

/// Undoes a publish that failed, as far as that works.
async fn take_back(driver: &Driver, id: &VolumeId, target: &Path) {
    let undone = async {
        match driver.pool.volumes.get(id) {
            Some(have) => unpublish(driver, id, &have, target).await?,
            // Not even its record could be written.
            None => provision::delete(driver, id.clone()).await?,
        }
        targets::remove(&driver.host, target).await
    };
    if let Err(error) = undone.await {
        tracing::warn!(volume = %id, error = chain(&error), "a half-made ephemeral volume stays");
    }
}

/// Unmounts the volume and deletes it. At another target than its own there is nothing to do.
///
/// # Crash safety
/// The record goes last, so that a repeat finds what is left to do.
pub async fn unpublish(driver: &Driver, id: &VolumeId, have: &VolumeRecord, target: &Path) -> Result<()> {
    if have.staged.values().any(|staging| staging.path != target) {
        return Ok(());
    }
    let seen = Seen::look(driver, id).await?;
    if let Some(other) = seen.uses_besides(target).next() {
        let how = format!("published at `{}`", other.display());
        return Err(VolumeError::InUse { id: id.clone(), how });
    }
    driver.point("local.ephemeral.before-unmount");
    target::unmount_all(driver, &seen, target).await?;
    driver.point("local.ephemeral.before-detach");
    if let Some(device) = &seen.device {
        prepare::detach(driver, id, device).await?;
    }
    driver.point("local.ephemeral.before-delete");
    provision::delete(driver, id.clone()).await
}
