//! The directory of a store: one user, one process at a time, one format.

use std::io::ErrorKind;
use std::path::Path;

use bowline_host::real::{self, ProcessLock, Taken};

use super::super::errors::OpenError;

/// Raised when a file of this version could not be read by an older one.
const FORMAT: u32 = 1;

/// How errors name the directory.
pub fn place(dir: &Path) -> String {
    format!("data directory {}", dir.display())
}

/// Creates the directory if needed, locks it, lets only this user in and checks its format.
pub fn claim(dir: &Path) -> Result<ProcessLock, OpenError> {
    let broken = |what: &str, error: std::io::Error| OpenError::Broken {
        place: place(dir),
        why: format!("{what}: {error}"),
    };
    if dir.is_symlink() {
        let to = std::fs::read_link(dir).unwrap_or_default();
        let why = format!(
            "it is a symbolic link to {}, and another user could have made it; name the directory itself",
            to.display()
        );
        return Err(OpenError::Broken { place: place(dir), why });
    }
    real::private_dir(dir).map_err(|e| broken("make it private", e))?;
    let lock = match real::lock_for_process(&dir.join("lock")) {
        Ok(lock) => lock,
        Err(Taken::InUse(holder)) => {
            return Err(OpenError::InUse { dir: dir.display().to_string(), holder });
        }
        Err(Taken::Io(error)) => return Err(broken("lock it", error)),
    };
    real::tighten(dir).map_err(|e| broken("make its files private", e))?;

    let path = dir.join("format");
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found <= FORMAT => {}
            _ => {
                let found = format!("{:?}", text.trim());
                return Err(OpenError::Newer { place: place(dir), found, known: FORMAT });
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            real::write_private(&path, format!("{FORMAT}\n").as_bytes())
                .map_err(|e| broken("write format", e))?;
        }
        Err(error) => return Err(broken("read format", error)),
    }
    Ok(lock)
}
