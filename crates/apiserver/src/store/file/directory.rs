//! The data directory: one process at a time, one format.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::super::errors::OpenError;

/// Raised when a file of this version could not be read by an older one.
const FORMAT: u32 = 1;

/// Held while the directory is open; the kernel lets go of it when the process dies.
pub struct Lock {
    _file: File,
}

/// How errors name the directory.
pub fn place(dir: &Path) -> String {
    format!("data directory {}", dir.display())
}

/// Creates the directory if needed, locks it and checks its format.
pub fn claim(dir: &Path) -> Result<Lock, OpenError> {
    let broken = |what: &str, error: std::io::Error| OpenError::Broken {
        place: place(dir),
        why: format!("{what}: {error}"),
    };
    std::fs::create_dir_all(dir).map_err(|e| broken("create it", e))?;
    let lock = lock(dir)?;

    let path = dir.join("format");
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found <= FORMAT => {}
            _ => {
                let found = format!("{:?}", text.trim());
                return Err(OpenError::Newer { place: place(dir), found, known: FORMAT });
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Renamed into place: a crash leaves either no file or a whole one.
            let fresh = dir.join("format.new");
            std::fs::write(&fresh, format!("{FORMAT}\n")).map_err(|e| broken("write format", e))?;
            File::open(&fresh).and_then(|f| f.sync_all()).map_err(|e| broken("sync format", e))?;
            std::fs::rename(&fresh, &path).map_err(|e| broken("rename format", e))?;
            File::open(dir).and_then(|d| d.sync_all()).map_err(|e| broken("sync it", e))?;
        }
        Err(error) => return Err(broken("read format", error)),
    }
    Ok(lock)
}

fn lock(dir: &Path) -> Result<Lock, OpenError> {
    let broken =
        |error: std::io::Error| OpenError::Broken { place: place(dir), why: format!("lock it: {error}") };
    let path = dir.join("lock");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(broken)?;
    match file.try_lock() {
        Ok(()) => {
            // For people and for the error below; the lock itself is the kernel's.
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| write!(file, "{}", std::process::id()))
                .map_err(broken)?;
            Ok(Lock { _file: file })
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            let holder = if known { format!(" (pid {})", pid.trim()) } else { String::new() };
            Err(OpenError::InUse { dir: dir.display().to_string(), holder })
        }
        Err(TryLockError::Error(error)) => Err(broken(error)),
    }
}
