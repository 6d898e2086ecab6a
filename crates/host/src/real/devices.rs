//! Block devices of any kind: their size, their cache, their queue.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::{major, minor};

use crate::kernel::{KernelError, Queue, Result};

const BY_NUMBER: &str = "/sys/dev/block";

/// Files in the queue directory of a device.
const DISCARD_LIMIT: &str = "discard_max_bytes";
const DISCARD_LIMIT_OF_HARDWARE: &str = "discard_max_hw_bytes";
const READ_AHEAD: &str = "read_ahead_kb";

/// No device discards in larger units than this power of two.
const DISCARD_UNIT_MAX: u64 = 1 << 20;

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

/// The number of a block device, as sysfs and the mount table spell it.
pub(super) fn number(device: &Path) -> io::Result<String> {
    let metadata = fs::metadata(device)?;
    if !metadata.file_type().is_block_device() {
        return Err(Errno::ENOTBLK.into());
    }
    Ok(format!("{}:{}", major(metadata.rdev()), minor(metadata.rdev())))
}

pub(super) fn set_queue(device: &Path, queue: Queue) -> Result<()> {
    match change_queue(device, queue) {
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) && is_stuck(device) => {
            Err(KernelError::discard_stays_off(device))
        }
        result => result.map_err(|e| KernelError::io(format!("set the queue of `{}`", device.display()), &e)),
    }
}

fn change_queue(device: &Path, Queue { discard, read_ahead_kib }: Queue) -> io::Result<()> {
    let dir = queue_dir(device)?;
    // A change of any limit resets the read-ahead, so that one comes last, also when it shall stay as it is.
    let read_ahead = read_ahead_kib.map_or_else(|| read(&dir, READ_AHEAD), |kib| Ok(kib.to_string()))?;
    match discard {
        Some(false) => fs::write(dir.join(DISCARD_LIMIT), "0")?,
        Some(true) if read(&dir, DISCARD_LIMIT)? == "0" => {
            let hardware = read(&dir, DISCARD_LIMIT_OF_HARDWARE)?;
            let hardware = hardware.parse::<u64>().map_err(io::Error::other)?;
            // A limit has to be a multiple of what the device discards at once.
            fs::write(dir.join(DISCARD_LIMIT), (hardware - hardware % DISCARD_UNIT_MAX).to_string())?;
        }
        Some(true) | None => {}
    }
    fs::write(dir.join(READ_AHEAD), read_ahead)
}

/// Whether somebody has turned discarding off. From Linux 6.9 on the limit cannot be raised from zero again, and
/// survives the image: the kernel checks it against a granularity that it sets to zero with it.
pub(super) fn is_stuck(device: &Path) -> bool {
    let value = |name| queue_dir(device).and_then(|dir| read(&dir, name)).ok();
    // Without sysfs nobody has changed anything.
    let (limit, hardware) = (value(DISCARD_LIMIT), value(DISCARD_LIMIT_OF_HARDWARE));
    limit.as_deref() == Some("0") && hardware.is_some_and(|hardware| hardware != "0")
}

fn queue_dir(device: &Path) -> io::Result<PathBuf> {
    Ok(Path::new(BY_NUMBER).join(number(device)?).join("queue"))
}

fn read(dir: &Path, name: &str) -> io::Result<String> {
    fs::read_to_string(dir.join(name)).map(|value| value.trim().to_string())
}
