//! Block devices of any kind: their size, their cache, their queue.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use nix::errno::Errno;

use crate::kernel::{KernelError, Queue, Result};

fn open(device: &Path) -> io::Result<File> {
    if !fs::metadata(device)?.file_type().is_block_device() {
        return Err(Errno::ENOTBLK.into());
    }
    File::open(device)
}

pub(super) fn size(device: &Path) -> Result<u64> {
    let size = open(device).and_then(|mut file| file.seek(SeekFrom::End(0)));
    size.map_err(|e| KernelError::io(format!("measure `{}`", device.display()), &e))
}

pub(super) fn flush(device: &Path) -> Result<()> {
    let flushed = open(device).and_then(|file| file.sync_all());
    flushed.map_err(|e| KernelError::io(format!("flush `{}`", device.display()), &e))
}

pub(super) fn set_queue(device: &Path, _queue: Queue) -> Result<()> {
    Err(KernelError::other(format!("set the queue of `{}`", device.display()), "not built yet"))
}
