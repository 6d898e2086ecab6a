//! Where a caller wants a volume, spelled as the mount table spells it.
//!
//! The kubelet's directory may be reached through a symbolic link, but the mount table never names one: a path that
//! was not resolved would be mounted and never found again.

use std::io;
use std::path::{Path, PathBuf};

use bowline_host::Host;
use bowline_host::disk::Kind;

use crate::error::{During, VolumeError};

type Result<T> = std::result::Result<T, VolumeError>;

/// A place to put something. It is no symbolic link itself, since what it leads to may change meanwhile, and
/// neither inside the pool nor around it: a mount there would hide volumes.
pub async fn to_use(host: &Host, pool: &Path, path: &Path, field: &'static str) -> Result<PathBuf> {
    let path = resolve(host, path).await.during("resolve the path of a mount")?;
    refuse_near(host, pool, &path, field).await?;
    match host.disk.kind(&path).await.during("look at the path of a mount")? {
        Some(Kind::Symlink) => Err(link(&path)),
        _ => Ok(path),
    }
}

/// A place to take something from. One that cannot be looked at may be a broken mount, which has to go, too.
pub async fn to_undo(host: &Host, pool: &Path, path: &Path, field: &'static str) -> Result<PathBuf> {
    let path = as_mounted(host, path).await;
    refuse_near(host, pool, &path, field).await?;
    match host.disk.kind(&path).await {
        Ok(Some(Kind::Symlink)) => Err(link(&path)),
        Ok(_) | Err(_) => Ok(path),
    }
}

/// As the mount table would name the path; as it is given where nothing can be found out.
pub async fn as_mounted(host: &Host, path: &Path) -> PathBuf {
    resolve(host, path).await.unwrap_or_else(|_| path.to_owned())
}

/// Resolves all but the last part and what is missing: a target is still to be made, and a broken mount answers
/// every question about itself with an error.
async fn resolve(host: &Host, path: &Path) -> io::Result<PathBuf> {
    let mut above = path.parent();
    while let Some(dir) = above {
        match host.disk.canonical(dir).await {
            Ok(real) => {
                let rest = path.strip_prefix(dir).unwrap_or(path);
                return Ok(real.join(rest));
            }
            Err(error) if is_missing(&error) => above = dir.parent(),
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

async fn refuse_near(host: &Host, pool: &Path, path: &Path, field: &'static str) -> Result<()> {
    let pool = host.disk.canonical(pool).await.during("resolve the path of the pool")?;
    match path.starts_with(&pool) || pool.starts_with(path) {
        true => Err(VolumeError::Invalid { field, why: "inside the pool, or around it".into() }),
        false => Ok(()),
    }
}

fn link(path: &Path) -> VolumeError {
    VolumeError::Foreign { path: path.to_owned(), what: "a symbolic link" }
}
