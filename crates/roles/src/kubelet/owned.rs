//! The kubelet's directory belongs to one node of one installation: it is locked and carries the installation's id and
//! the node's name before anything in it is touched. Another kubelet's pods look like orphans of ours, and would be taken
//! down.
//!
//! # Crash safety
//!
//! A directory of an older version has pods and no id. Each of its pods is recorded first and the id written last, so a
//! process that dies in between leaves a directory that the next one takes in the same way.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Lock;
use bowline_machinery::RunError;

use super::records::{self, PodRecords};

/// Holds the id of the installation that the directory belongs to, and the name of its node.
pub const INSTALLATION: &str = ".bowline-installation";
const LOCK: &str = ".bowline-lock";
const FILE_MODE: u32 = 0o600;
/// Upstream's mode of the kubelet's directory.
const DIRECTORY_MODE: u32 = 0o750;
/// What may stand in a directory that no kubelet has used: sockets of drivers that started first, and a filesystem's own.
const HARMLESS: [&str; 5] = ["plugins", "plugins_registry", "lost+found", LOCK, INSTALLATION];
/// Below `plugins`, only a kubelet makes this.
const STAGED: &str = "plugins/kubernetes.io";
const PODS: &str = "pods";
const LOGS: &str = "pod-logs";
/// What an older version of Bowline made besides; records of pods are there if a process died while taking it.
const OLDER: [&str; 3] = [PODS, LOGS, records::DIRECTORY];

/// Who takes a directory.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// Of the installation.
    pub id: &'a str,
    pub node_name: &'a str,
    /// The pods of an installation that an older version made, which wrote no id; nothing for any other.
    pub older: Option<&'a KnownPods>,
    pub flags: OwnerFlags,
}

/// The flags that choose the directory and the node's name, for people whose choice is refused.
#[derive(Debug, Clone, Copy)]
pub struct OwnerFlags {
    pub dir: &'static str,
    pub name: &'static str,
}

impl OwnerFlags {
    pub const UP: Self = Self { dir: "--kubelet-dir", name: "--node-name" };
    pub const KUBELET: Self = Self { dir: "--root-dir", name: "--hostname-override" };
}

/// The pods that an installation knows, by UID, each with the node that it is bound to, if that is known.
pub type KnownPods = BTreeMap<String, Option<String>>;

/// A directory that is ours as long as this lives.
#[derive(Debug)]
pub struct Owned {
    _lock: Lock,
}

/// What the directory says of its owner.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It carries our id and our node's name.
    Ours,
    /// It carries our id, written before the name was.
    Unnamed,
    /// No kubelet has used it.
    Fresh,
    /// An older version of this installation has used it for these pods.
    Older(Vec<String>),
}

impl Owned {
    /// Takes the kubelet's directory for a node of an installation. Refuses, and changes nothing, if another kubelet,
    /// another installation or another node uses it.
    pub async fn take(host: &Host, dir: &Path, owner: Owner<'_>) -> Result<Self, RunError> {
        let failed = |what| {
            let path = dir.display().to_string();
            move |source: io::Error| RunError::Io { what, path, source }
        };
        look(host, dir, owner).await?;
        host.disk.create_dir_all(dir, DIRECTORY_MODE).await.map_err(failed("create"))?;
        let lock = match host.disk.lock(&dir.join(LOCK)).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(refused(dir, owner, "is in use by another Bowline; stop that one, or choose"));
            }
            lock => lock.map_err(failed("lock"))?,
        };
        // Another installation may have taken it between the look and the lock.
        let found = look(host, dir, owner).await?;
        if let Found::Older(pods) = &found {
            let records = PodRecords::load(host, dir).await?;
            for uid in pods {
                records.add(uid).await.map_err(failed("record the pods of an older version in"))?;
                host.failpoints.hit("kubelet.take.pod-recorded");
            }
            tracing::info!(dir = %dir.display(), pods = pods.len(), "took over what an older version left");
        }
        if found != Found::Ours {
            let text = format!("{}\n{}\n", owner.id, owner.node_name);
            let written = host.disk.write_atomic(&dir.join(INSTALLATION), text.as_bytes(), FILE_MODE).await;
            written.map_err(failed("write the installation's id into"))?;
        }
        tighten(host, dir).await.map_err(failed("keep other users out of"))?;
        Ok(Self { _lock: lock })
    }
}

/// A directory that was there, or that an older version made, may be open to other users of the machine.
async fn tighten(host: &Host, dir: &Path) -> io::Result<()> {
    // It may be reached through a link; nothing in it may be one.
    let dir = host.disk.canonical(dir).await?;
    host.disk.restrict(&dir, DIRECTORY_MODE).await?;
    for name in [PODS, LOGS] {
        let dir = dir.join(name);
        if host.disk.kind(&dir).await?.is_some() {
            // A process may have died while it made this one, before it had its mode.
            host.disk.create_dir_all(&dir, DIRECTORY_MODE).await?;
            host.disk.restrict(&dir, DIRECTORY_MODE).await?;
        }
    }
    Ok(())
}

/// Whose the directory is. Only reads.
async fn look(host: &Host, dir: &Path, owner: Owner<'_>) -> Result<Found, RunError> {
    let failed = |source: io::Error| RunError::Io {
        what: "look for the owner of",
        path: dir.display().to_string(),
        source,
    };
    match host.disk.read(&dir.join(INSTALLATION)).await {
        Ok(bytes) => return named_owner(dir, &String::from_utf8_lossy(&bytes), owner),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut traces = host.disk.list(dir).await.map_err(failed)?;
    traces.retain(|name| !HARMLESS.contains(&name.as_str()));
    if host.disk.kind(&dir.join(STAGED)).await.map_err(failed)?.is_some() {
        traces.push(STAGED.to_owned());
    }
    let expected = |name: &String| OLDER.contains(&name.as_str()) || name == STAGED;
    let foreign = traces.iter().find(|name| owner.older.is_none() || !expected(name));
    if let Some(name) = foreign {
        return Err(refused(dir, owner, &format!("holds `{name}`, which another kubelet may use; choose")));
    }
    match owner.older {
        Some(known) if !traces.is_empty() => {
            let pods = host.disk.list(&dir.join(PODS)).await.map_err(failed)?;
            older_owner(dir, pods, known, owner)
        }
        _ => Ok(Found::Fresh),
    }
}

fn named_owner(dir: &Path, text: &str, owner: Owner<'_>) -> Result<Found, RunError> {
    let mut lines = text.lines().map(str::trim);
    if lines.next() != Some(owner.id) {
        return Err(refused(dir, owner, "belongs to another Bowline installation; choose"));
    }
    match lines.next() {
        None | Some("") => Ok(Found::Unnamed),
        Some(name) if name == owner.node_name => Ok(Found::Ours),
        Some(name) => Err(renamed(dir, name, owner)),
    }
}

/// A UID is drawn once, so a directory whose pods are all known here was not another kubelet's.
fn older_owner(
    dir: &Path,
    pods: Vec<String>,
    known: &KnownPods,
    owner: Owner<'_>,
) -> Result<Found, RunError> {
    for uid in &pods {
        match known.get(uid) {
            Some(Some(node)) if node != owner.node_name => return Err(renamed(dir, node, owner)),
            Some(_) => {}
            None => {
                let pod = dir.join(PODS).join(uid);
                let why = format!(
                    "has no installation id and holds `pods/{uid}`, a pod that this installation does not know: if no other kubelet uses it, unmount what `findmnt -R {0}` shows and remove `{0}`, or choose",
                    pod.display()
                );
                return Err(refused(dir, owner, &why));
            }
        }
    }
    Ok(Found::Older(pods))
}

fn refused(dir: &Path, owner: Owner<'_>, why: &str) -> RunError {
    RunError::Refused(format!(
        "the kubelet directory `{}` {why} another directory with {} DIR",
        dir.display(),
        owner.flags.dir
    ))
}

/// Pods are bound to a node by its name: under another one, all that run here would look like orphans.
fn renamed(dir: &Path, old: &str, owner: Owner<'_>) -> RunError {
    let (new, flag) = (owner.node_name, owner.flags.name);
    RunError::Refused(format!(
        "the kubelet directory `{}` belongs to node `{old}`, not to `{new}`: start with {flag} {old}",
        dir.display()
    ))
}
