//! The kubelet's directory belongs to one installation: it is locked and carries the installation's id before anything in
//! it is touched. Another kubelet's pods look like orphans of ours, and would be taken down.

use std::io;
use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Lock;
use bowline_machinery::RunError;

/// Holds the id of the installation that the directory belongs to.
pub const INSTALLATION: &str = ".bowline-installation";
const LOCK: &str = ".bowline-lock";
const FILE_MODE: u32 = 0o600;
/// Upstream's mode of the kubelet's directory.
const DIRECTORY_MODE: u32 = 0o750;
/// What may stand in a directory that no kubelet has used: sockets of drivers that started first, and a filesystem's own.
const HARMLESS: [&str; 5] = ["plugins", "plugins_registry", "lost+found", LOCK, INSTALLATION];
/// Below `plugins`, only a kubelet makes this.
const STAGED: &str = "plugins/kubernetes.io";

/// A directory that is ours as long as this lives.
#[derive(Debug)]
pub struct Owned {
    _lock: Lock,
}

impl Owned {
    /// Takes the kubelet's directory for the installation with this id. Refuses, and changes nothing, if another kubelet
    /// or another installation uses it.
    pub async fn take(host: &Host, dir: &Path, id: &str) -> Result<Self, RunError> {
        let failed = |what| {
            let path = dir.display().to_string();
            move |source: io::Error| RunError::Io { what, path, source }
        };
        check(host, dir, id).await?;
        host.disk.create_dir_all(dir, DIRECTORY_MODE).await.map_err(failed("create"))?;
        let lock = match host.disk.lock(&dir.join(LOCK)).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(refused(dir, "is in use by another Bowline; stop that one, or choose"));
            }
            lock => lock.map_err(failed("lock"))?,
        };
        // Another installation may have taken it between the look and the lock.
        if !check(host, dir, id).await? {
            let file = dir.join(INSTALLATION);
            let written = host.disk.write_atomic(&file, format!("{id}\n").as_bytes(), FILE_MODE).await;
            written.map_err(failed("write the installation's id into"))?;
        }
        Ok(Self { _lock: lock })
    }
}

/// Whether the directory carries our id; false for one that nobody has used. Only reads.
async fn check(host: &Host, dir: &Path, id: &str) -> Result<bool, RunError> {
    let failed = |source: io::Error| RunError::Io {
        what: "look for the owner of",
        path: dir.display().to_string(),
        source,
    };
    match host.disk.read(&dir.join(INSTALLATION)).await {
        Ok(bytes) if String::from_utf8_lossy(&bytes).trim() == id => return Ok(true),
        Ok(_) => return Err(refused(dir, "belongs to another Bowline installation; choose")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listed = host.disk.list(dir).await.map_err(failed)?;
    let mut foreign = listed.into_iter().find(|name| !HARMLESS.contains(&name.as_str()));
    if foreign.is_none() && host.disk.kind(&dir.join(STAGED)).await.map_err(failed)?.is_some() {
        foreign = Some(STAGED.to_owned());
    }
    match foreign {
        None => Ok(false),
        Some(name) => {
            let why = format!("holds `{name}`, which another kubelet may use; choose");
            Err(refused(dir, &why))
        }
    }
}

fn refused(dir: &Path, why: &str) -> RunError {
    RunError::Refused(format!(
        "the kubelet directory `{}` {why} another directory with --kubelet-dir DIR",
        dir.display()
    ))
}
