//! Where a volume shows on a node: the paths by which a caller may speak of it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bowline_host::kernel::Mount;

use super::config::NamedNode;
use super::driver::Driver;
use super::mounts::{Owner, Seen};
use super::record::VolumeRecord;
use super::{parse, plan};
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// A volume and the path at which a caller has it.
#[derive(Debug)]
pub struct Place {
    pub id: VolumeId,
    pub path: PathBuf,
}

impl Place {
    /// Any text will do as a path: what no volume can be shown at is a place where this one is not.
    pub fn parse(volume_id: &str, volume_path: &str) -> Result<Self> {
        parse::volume_id(volume_id)?;
        if volume_path.is_empty() {
            return Err(VolumeError::Missing("volume_path"));
        }
        Ok(Self { id: parse::existing(volume_id)?, path: volume_path.into() })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Shown {
    /// A mount of the volume's filesystem: where it is staged, where it is published, or a part of that.
    Filesystem(Mount),
    /// The device: its file, where that is published, or the place where it is staged.
    Device,
}

pub struct Found {
    pub device: PathBuf,
    pub shown: Shown,
    /// The mount table in which it was found.
    pub seen: Seen,
}

/// Looks the place up in the mount table, never in what was recorded: after a reboot the record speaks of a device
/// that is gone, and the path leads into the filesystem that held the mount.
pub async fn find(
    driver: &Driver,
    node: &NamedNode,
    have: &VolumeRecord,
    place: &Place,
    seen: Seen,
) -> Result<Found> {
    let missing = || VolumeError::NotShown { id: place.id.clone(), path: place.path.clone() };
    if let Some(taken) = &seen.taken {
        return Err(VolumeError::DeviceTaken { id: place.id.clone(), why: taken.describe() });
    }
    let device = seen.device.clone().ok_or_else(missing)?;
    let path = in_mount_table(driver, &place.path).await.during("resolve path")?;
    let shown = match path.and_then(|path| shown_at(&path, have, &seen, &node.id)) {
        Some(shown) => shown,
        None if is_device(driver, &place.path, &device).await.during("resolve path")? => Shown::Device,
        None => return Err(missing()),
    };
    Ok(Found { device, shown, seen })
}

fn shown_at(path: &Path, have: &VolumeRecord, seen: &Seen, node: &str) -> Option<Shown> {
    let staged = || plan::staged_at(have, seen, node).filter(|staged| staged.block && staged.path == path);
    // Nothing is ever mounted at the staging path of a block volume.
    let Some(mount) = seen.at(path) else { return staged().map(|_| Shown::Device) };
    match seen.owner(mount) {
        Owner::Filesystem => Some(Shown::Filesystem(mount.clone())),
        Owner::Device => Some(Shown::Device),
        Owner::Foreign => None,
    }
}

/// The path as the mount table would spell it. Only what leads to the last part is resolved: asking the mounted
/// filesystem itself could take for ever.
async fn in_mount_table(driver: &Driver, path: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute()) else {
        return Ok(None);
    };
    Ok(existing(driver.host.disk.canonical(parent).await)?.map(|parent| parent.join(name)))
}

async fn is_device(driver: &Driver, path: &Path, device: &Path) -> io::Result<bool> {
    if !path.is_absolute() {
        return Ok(false);
    }
    Ok(existing(driver.host.disk.canonical(path).await)?.is_some_and(|path| path == device))
}

fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename => Ok(None),
            _ => Err(error),
        },
    }
}
