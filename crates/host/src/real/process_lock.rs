//! A lock that one process holds on a directory for as long as it lives, for callers that may block.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::private::private_file;

/// A process that was killed may leave children between fork and exec, which have the file open. On a busy machine it takes
/// them a while to close it.
const AFTER_DEATH: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Held until dropped; the kernel lets go of it when the process dies.
#[derive(Debug)]
pub struct ProcessLock {
    file: File,
}

impl Drop for ProcessLock {
    /// Said aloud, because of children between fork and exec.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
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

/// Locks a file, which is created if missing and then names this process. A holder that has died is waited for.
pub fn lock_for_process(path: &Path) -> Result<ProcessLock, Taken> {
    let file = private_file(path)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&file);
                if holder.as_deref().is_none_or(lives) || begun.elapsed() > AFTER_DEATH {
                    let shown = holder.map(|pid| format!(" (pid {pid})"));
                    return Err(Taken::InUse(shown.unwrap_or_default()));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    // For people and for the error above; the lock itself is the kernel's. In place, and no reason to fail: the disk may
    // be full.
    let _ = file.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
    Ok(ProcessLock { file })
}

/// The process that the file names.
fn holder(file: &File) -> Option<String> {
    let mut pid = [0; 16];
    let length = file.read_at(&mut pid, 0).ok()?;
    let pid = std::str::from_utf8(&pid[..length]).ok()?.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}

/// Whether a process has not ended; one that its parent has not waited for has.
fn lives(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The state stands after the name, which is in parentheses and may hold anything.
    let state = |status: &str| status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match status {
        Ok(status) => !matches!(state(&status), Some('Z' | 'X')),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The pid of a process that has ended.
    fn dead() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn held_by(path: &Path, pid: u32) -> File {
        let file = private_file(path).unwrap();
        file.try_lock().unwrap();
        file.write_all_at(format!("{pid:<10}\n").as_bytes(), 0).unwrap();
        file
    }

    #[test]
    fn what_a_killed_process_left_is_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let left = held_by(&path, dead());
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            left.unlock().unwrap();
        });
        let lock = lock_for_process(&path).unwrap();
        child.join().unwrap();
        drop(lock);
    }

    #[test]
    fn a_living_holder_is_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let _held = held_by(&path, std::process::id());
        let begun = Instant::now();
        let refused = lock_for_process(&path).unwrap_err().to_string();
        assert_eq!(refused, format!("in use by another process (pid {})", std::process::id()));
        assert!(begun.elapsed() < AFTER_DEATH / 2);
    }

    #[test]
    fn a_process_that_was_not_waited_for_is_dead() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().to_string();
        assert!(lives(&pid));
        child.kill().unwrap();
        while lives(&pid) {
            std::thread::sleep(LOOK_AGAIN);
        }
        assert!(Path::new("/proc").join(&pid).exists(), "its parent has not waited for it");
        child.wait().unwrap();
        assert!(!lives(&pid));
    }
}
