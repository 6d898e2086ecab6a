//! A lock that one process holds on a directory for as long as it lives, for callers that may block.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::private::private_file;

/// Held until dropped; the kernel lets go of it when the process dies.
#[derive(Debug)]
pub struct ProcessLock {
    _file: File,
}

/// Why a lock is not ours.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    /// The holder as ` (pid 1)`, or nothing if it did not say who it is.
    #[error("in use by another process{0}")]
    InUse(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Locks a file, which is created if missing and then names this process.
pub fn lock_for_process(path: &Path) -> Result<ProcessLock, Taken> {
    let mut file = private_file(path)?;
    match file.try_lock() {
        Ok(()) => {
            // For people and for the error below; the lock itself is the kernel's. In place, and no reason to
            // fail: the disk may be full.
            let _ = file.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
            Ok(ProcessLock { _file: file })
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            Err(Taken::InUse(if known { format!(" (pid {})", pid.trim()) } else { String::new() }))
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}
