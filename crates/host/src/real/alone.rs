//! One program at a time on one device, also across a crash of this process.
//!
//! A filesystem tool outlives the process that started it. The next process must not start a second one beside it:
//! two btrfstune at once destroy what both rewrite. So the lock is the tool's own. It is a lock on the device through
//! an open file that the tool has as its standard input, and that ends with the tool.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::blocking_kernel;
use crate::kernel::{KernelError, Result};

/// Others look at devices for moments, and a process being forked has all open files. Waited for at most 500 ms.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// The device, locked for whoever has the file. It cannot be read through it, so a tool that asks gets no answer.
pub(super) async fn lock(device: &Path) -> Result<File> {
    let device = device.to_path_buf();
    blocking_kernel(move || {
        let what = || format!("lock `{}`", device.display());
        let file = OpenOptions::new().write(true).open(&device).map_err(|e| KernelError::io(what(), &e))?;
        for _ in 0..TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(errno) => return Err(KernelError::errno(what(), errno.raw_os_error())),
            }
        }
        let why = "a program is at work on it, perhaps from before a restart; try again when it is done";
        Err(KernelError { what: what(), why: why.into(), errno: Some(Errno::BUSY.raw_os_error()) })
    })
    .await
}
