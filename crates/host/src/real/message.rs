//! The file in which a program leaves a message about its end: in memory, small, and shown at one path of its container.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::bindings::{self, Detached, call};
use super::raw::MountOptions;
use crate::containers::MESSAGE_MAX;
use crate::kernel::{KernelError, Result};

const NAME: &str = "message";
/// The program may be any user.
const MODE: u32 = 0o666;
const OPTIONS: MountOptions = MountOptions { read_only: false, no_devices: true, no_setuid: true };
const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Makes the file in a filesystem of its own over `dir`, in a mount namespace that nobody else sees. It is read through
/// the handle, because its path means nothing inside the container.
pub(super) fn create(dir: &Path, target: &Path) -> Result<(Detached, File)> {
    call(
        "mount a tmpfs for the termination message",
        mount("tmpfs", dir, "tmpfs", SAFE, c"size=16k,nr_inodes=2"),
    )?;
    let path = dir.join(NAME);
    let open = || {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(MODE)).map(|()| file)
    };
    let file = open().map_err(|e| KernelError::io("create the file of the termination message", &e))?;
    Ok((bindings::part(&path, target, OPTIONS)?, file))
}

/// What was left in it.
pub(super) fn read(file: &File) -> io::Result<Option<String>> {
    let mut text = vec![0; MESSAGE_MAX];
    let mut length = 0;
    while length < MESSAGE_MAX {
        match file.read_at(&mut text[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty()))
}
