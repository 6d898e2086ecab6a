//! How much room there is and how much is taken, for callers that may block.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use super::extents::next_data;

/// `st_blocks` counts in these, whatever the filesystem's blocks are.
const STAT_BLOCK: u64 = 512;

/// Bytes that an ordinary process may still write to the filesystem of a path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Bytes that a directory and everything in it take on the disk; holes of files take none.
pub fn allocated_bytes(dir: &Path) -> io::Result<u64> {
    let mut total = std::fs::symlink_metadata(dir)?.blocks() * STAT_BLOCK;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        total += if entry.file_type()?.is_dir() {
            allocated_bytes(&entry.path())?
        } else {
            entry.metadata()?.blocks() * STAT_BLOCK
        };
    }
    Ok(total)
}

/// Where the last data of a file ends; behind it there is at most a hole.
pub fn data_end(file: &File) -> io::Result<u64> {
    let (mut position, mut end) = (0, 0);
    while let Some((_, stretch_end)) = next_data(file, position)? {
        (position, end) = (stretch_end, stretch_end);
    }
    Ok(end)
}

/// Allocates blocks for a stretch of an existing file, inside it or behind its end, which stays where it is: writing
/// there later cannot fail for want of room. What is already there is left as it is.
pub fn preallocate(path: &Path, offset: u64, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, offset, length)?)
}
