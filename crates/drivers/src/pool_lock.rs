//! Whose a pool is: one process serves it at a time, and one installation of Bowline.
//!
//! Both are settled before anything in the pool is read or changed: two processes would each trust what it remembers of
//! records that the other changes, and two installations would each delete what it does not know.

use std::io;
use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::{Kind, Lock};

use crate::error::{During, VolumeError};
use crate::shelf::{DIR_MODE, FILE_MODE, RECORD};

/// Names the installation that the pool belongs to.
pub const INSTALLATION: &str = "installation";
/// Locks of the drivers, which may share a pool.
pub const LOCAL_LOCK: &str = "lock";
pub const SHARE_LOCK: &str = "share.lock";
/// Everything that drivers keep at the top of a pool, and what a filesystem has there from the beginning.
const ENTRIES: [&str; 8] =
    ["lock", "share.lock", "installation", "volumes", "snapshots", "groups", "shares", "lost+found"];
/// Of these, the directories that hold one directory per volume.
const FOLDERS: [&str; 4] = ["volumes", "snapshots", "groups", "shares"];
const IMAGE: &str = "disk.img";

type Result<T> = std::result::Result<T, VolumeError>;

/// Takes the pool for as long as the lock lives. With an installation, only a pool of that one or of none.
pub async fn open(host: &Host, root: &Path, lock: &str, installation: Option<&str>) -> Result<Lock> {
    host.disk.create_dir_all(root, DIR_MODE).await.during("create pool directory")?;
    let held = take(host, root, lock).await?;
    sign(host, root, installation).await?;
    tighten(host, root).await?;
    Ok(held)
}

/// Takes an existing pool, to repair it.
pub async fn take(host: &Host, root: &Path, lock: &str) -> Result<Lock> {
    match host.disk.lock(&root.join(lock)).await {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(VolumeError::PoolTaken { pool: root.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Err(VolumeError::NoLock { pool: root.to_owned(), lock: lock.to_owned() })
        }
        taken => taken.during("lock the pool"),
    }
}

/// Writes down whose the pool is, or compares it. A read-only disk is for volumes to complain about.
async fn sign(host: &Host, root: &Path, installation: Option<&str>) -> Result<()> {
    let path = root.join(INSTALLATION);
    let found = match host.disk.read(&path).await {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).during("read whose pool it is"),
    };
    match installation {
        Some(own) if !found.is_empty() && found != own => {
            Err(VolumeError::PoolOfAnother { pool: root.to_owned(), owner: found, own: own.to_owned(), path })
        }
        _ if !found.is_empty() => Ok(()),
        own => {
            let own = own.map_or_else(|| host.random.uuid(), str::to_owned);
            match host.disk.write_atomic(&path, format!("{own}\n").as_bytes(), FILE_MODE).await {
                Err(error) if is_unwritable(&error) => Ok(()),
                written => written.during("write down whose pool it is"),
            }
        }
    }
}

fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), ReadOnlyFilesystem | StorageFull | QuotaExceeded)
}

/// Lets no other user into the pool. What is below was out of reach if the top was, so only a pool that was open before
/// is walked. A directory that also holds other things keeps its mode: others may have to get through.
async fn tighten(host: &Host, root: &Path) -> Result<()> {
    let names = host.disk.list(root).await.during("list pool")?;
    let other = names.iter().find(|name| !ENTRIES.contains(&name.as_str()));
    let opened = match other {
        None => restrict(host, root, DIR_MODE).await?,
        Some(other) => {
            tracing::warn!(pool = %root.display(), other, "pool directory holds other files and keeps its permissions");
            true
        }
    };
    if !opened {
        return Ok(());
    }
    for file in [LOCAL_LOCK, SHARE_LOCK, INSTALLATION] {
        restrict(host, &root.join(file), FILE_MODE).await?;
    }
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        restrict(host, &folder, DIR_MODE).await?;
        for volume in host.disk.list(&folder).await.during("list pool")? {
            let dir = folder.join(volume);
            restrict(host, &dir, DIR_MODE).await?;
            for file in [RECORD, IMAGE] {
                restrict(host, &dir.join(file), FILE_MODE).await?;
            }
        }
    }
    Ok(())
}

/// Links and what is missing are passed over: neither is this driver's.
async fn restrict(host: &Host, path: &Path, mode: u32) -> Result<bool> {
    let kind = host.disk.kind(path).await.during("look at the pool")?;
    if !matches!(kind, Some(Kind::Dir | Kind::File)) {
        return Ok(false);
    }
    match host.disk.restrict(path, mode).await {
        Ok(changed) => Ok(changed),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(false),
        Err(error) => Err(error).during("make the pool private"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use bowline_host::real::{RealConfig, host};

    use super::*;

    /// A process that is killed while it creates a volume leaves a directory that has not got its mode. A pool with other
    /// files is walked at every start.
    #[tokio::test]
    async fn a_pool_with_other_files_and_a_volume_cut_short_can_be_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let host = host(RealConfig::new(scratch.path().join("state"))).unwrap();
        let pool = scratch.path().join("pool");
        drop(open(&host, &pool, LOCAL_LOCK, None).await.unwrap());
        let volume = pool.join("volumes/v");
        fs::create_dir_all(&volume).unwrap();
        fs::set_permissions(&volume, Permissions::from_mode(0o1000)).unwrap();
        fs::write(pool.join("notes.txt"), "").unwrap();
        for lock in [LOCAL_LOCK, SHARE_LOCK] {
            open(&host, &pool, lock, None).await.unwrap();
        }
        host.disk.create_dir_all(&volume, DIR_MODE).await.unwrap();
        assert_eq!(fs::metadata(&volume).unwrap().mode() & 0o7777, DIR_MODE);
    }
}
