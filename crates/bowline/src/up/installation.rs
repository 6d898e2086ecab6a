//! Which installation this is, and what belongs to it: data directory and kubelet directory are locked and carry its id
//! before anything in them is touched and before any role starts.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use bowline_host::disk::Lock;
use bowline_roles::kubelet::Owned;

use super::Config;

/// Holds the id, in the data directory.
const FILE: &str = "installation";
const LOCK: &str = "installation.lock";
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The directories are ours as long as this lives.
pub struct Installation {
    _data: Lock,
    _kubelet: Owned,
}

impl Installation {
    /// Refuses directories that another process, installation or kubelet uses, and changes nothing in them.
    pub async fn take(host: &Host, config: &Config) -> Result<Self> {
        let data = lock(host, &config.data_dir).await?;
        let id = id(host, &config.data_dir).await?;
        let kubelet = Owned::take(host, &config.kubelet_dir, &id).await?;
        Ok(Self { _data: data, _kubelet: kubelet })
    }
}

async fn lock(host: &Host, dir: &Path) -> Result<Lock> {
    let shown = dir.display();
    let made = host.disk.create_dir_all(dir, DIRECTORY_MODE).await;
    made.with_context(|| format!("create the data directory `{shown}`"))?;
    match host.disk.lock(&dir.join(LOCK)).await {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => bail!(
            "the data directory `{shown}` is in use by another process; stop that one, or choose another directory with --data-dir DIR"
        ),
        lock => lock.with_context(|| format!("lock the data directory `{shown}`")),
    }
}

/// The id of this data directory, drawn when it is used for the first time. Under the lock, so that there is one.
async fn id(host: &Host, dir: &Path) -> Result<String> {
    let file = dir.join(FILE);
    match host.disk.read(&file).await {
        Ok(bytes) => return Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("read `{}`", file.display())),
    }
    let id = format!("{:016x}{:016x}", host.random.next_u64(), host.random.next_u64());
    let written = host.disk.write_atomic(&file, format!("{id}\n").as_bytes(), FILE_MODE).await;
    written.with_context(|| format!("write `{}`", file.display()))?;
    Ok(id)
}
