//! Locks between processes, and between handles of one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::disk::FILE_MODE;
use crate::disk::Lock;

/// How often the file may be replaced by another one while it is being locked.
const TRIES: u32 = 16;

/// How long a lock is waited for before it counts as taken.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

struct Held(File);

impl Drop for Held {
    /// Said aloud: a child between fork and exec has the file open, and would keep the lock for a moment.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

pub(super) fn take(path: &Path) -> io::Result<Lock> {
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = match options.open(path) {
            // Where nobody can write, holding off others is all there is to a lock.
            Err(read_only) if read_only.kind() == io::ErrorKind::ReadOnlyFilesystem => match File::open(path)
            {
                // That it cannot be made says more than that it is not there.
                Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Err(read_only),
                opened => opened?,
            },
            opened => opened?,
        };
        wait_for(&file)?;
        let held = Held(file);
        if is_at(&held.0, path)? {
            return Ok(Lock::new(held));
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Waits a moment: the holder may have been killed, and its children between fork and exec have the file open.
fn wait_for(file: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => std::thread::sleep(LOOK_AGAIN),
            done => return Ok(done?),
        }
    }
}

/// Whether a locked file still is the one that others will find; a removed one excludes nobody.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (metadata.dev(), metadata.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
