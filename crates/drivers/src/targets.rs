//! Target paths, which a driver makes at publish and removes at unpublish.

use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Kind;
use bowline_host::kernel::Mount;

use crate::error::{During, VolumeError};
use crate::fields::Undo;

type Result<T> = std::result::Result<T, VolumeError>;

/// Of a target that is a directory.
pub const TARGET_MODE: u32 = 0o750;
/// Most mounts ever taken off one path; more means that something keeps adding them.
const STACK_MAX: usize = 16;

/// Unmounts until nothing of this volume shows at the path. Two racing binds may have stacked there; a mount
/// that is not this volume's is somebody else's to remove.
pub async fn unmount_all(host: &Host, path: &Path, ours: impl Fn(&Mount) -> bool) -> Result<()> {
    for _ in 0..STACK_MAX {
        match host.kernel.mount_at(path).await.during("look for a mount")? {
            None => return Ok(()),
            Some(mount) if !ours(&mount) => return Err(foreign(path)),
            Some(_) => host.kernel.unmount(path).await.during("unmount")?,
        }
        host.failpoints.hit("unmount.after");
    }
    Err(VolumeError::Foreign { path: path.to_owned(), what: "mounted again and again" })
}

/// For volumes this driver does not know: done when nothing is there, refused when something is, since it
/// cannot be ours to unmount.
pub async fn refuse_mounted(host: &Host, want: &Undo) -> Result<()> {
    match host.kernel.mount_at(&want.path).await.during("look for a mount")? {
        Some(_) => Err(VolumeError::NotFound { id: want.asked.clone() }),
        None => Ok(()),
    }
}

/// Removes an empty directory or an empty file. Anything else holds data that is not ours to delete.
pub async fn remove(host: &Host, path: &Path) -> Result<()> {
    let disk = &host.disk;
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

/// After a failed bind: nobody unpublishes what was never published, so the path would stay.
pub async fn remove_unused(host: &Host, path: &Path) {
    if let Err(error) = remove(host, path).await {
        tracing::warn!(error = crate::error::chain(&error), "target stays after a failed bind");
    }
}

pub fn foreign(path: &Path) -> VolumeError {
    VolumeError::Foreign { path: path.to_owned(), what: "a mount point of something else" }
}
