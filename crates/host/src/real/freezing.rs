//! Stopping and resuming the writes to a mounted filesystem.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};

use super::raw;
use crate::kernel::{KernelError, Result};

pub(super) fn freeze(target: &Path) -> Result<()> {
    let failed =
        |e: io::Error| KernelError::io(format!("freeze what is mounted at `{}`", target.display()), &e);
    let directory = File::open(target).map_err(failed)?;
    // The call would freeze whatever filesystem the directory is in, be it the machine's own.
    if !is_mount_root(&directory).map_err(failed)? {
        return Err(failed(Errno::EINVAL.into()));
    }
    raw::freeze(&directory).map_err(|errno| failed(errno.into()))
}

pub(super) fn thaw(target: &Path) -> Result<()> {
    let failed =
        |e: io::Error| KernelError::io(format!("thaw what is mounted at `{}`", target.display()), &e);
    let directory = match File::open(target) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !is_mount_root(&directory).map_err(failed)? {
        return Ok(());
    }
    match raw::thaw(&directory) {
        // Not frozen.
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(errno) => Err(failed(errno.into())),
    }
}

fn is_mount_root(directory: &File) -> io::Result<bool> {
    let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
