//! Watching a directory tree for sockets.
//!
//! A notice from the kernel only says "look again": each look compares the whole tree with the last one, so an
//! overflowing queue, a directory that appears full, or a socket replaced in between cannot confuse it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::StreamExt;
use inotify::{Inotify, WatchMask, Watches};
use tokio::sync::mpsc;

use super::blocking;
use crate::net::DirEvent;

/// Events a watcher may be behind before this waits for it.
const BUFFER: usize = 64;
/// Room for kernel notices; several fit, each with a name of up to 255 bytes.
const NOTICE_BYTES: usize = 16 << 10;
/// Deeper directories are not looked into.
const DEPTH_MAX: usize = 8;

/// Tells one socket from a later one at the same path, although inode numbers are used again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    inode: u64,
    born: Option<SystemTime>,
}

type Sockets = BTreeMap<PathBuf, Identity>;

pub(super) async fn watch(dir: &Path) -> io::Result<mpsc::Receiver<DirEvent>> {
    let (sender, receiver) = mpsc::channel(BUFFER);
    let dir = dir.to_path_buf();
    let root = dir.clone();
    blocking(move || fs::create_dir_all(root)).await?;
    let inotify = Inotify::init()?;
    let watches = inotify.watches();
    let mut notices = inotify.into_event_stream(vec![0; NOTICE_BYTES])?;
    let mut known = look(&dir, &watches).await?;
    tokio::spawn(async move {
        let first = known.keys().cloned().map(DirEvent::Created).collect();
        let mut open = tell(&sender, first).await;
        while open {
            tokio::select! {
                () = sender.closed() => return,
                notice = notices.next() => match notice {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => tracing::warn!(dir = %dir.display(), %error, "read directory notices"),
                    None => return,
                },
            }
            match look(&dir, &watches).await {
                Ok(now) => {
                    open = tell(&sender, difference(&known, &now)).await;
                    known = now;
                }
                Err(error) => tracing::warn!(dir = %dir.display(), %error, "look into a watched directory"),
            }
        }
    });
    Ok(receiver)
}

/// False when nobody listens any more.
async fn tell(sender: &mpsc::Sender<DirEvent>, events: Vec<DirEvent>) -> bool {
    for event in events {
        if sender.send(event).await.is_err() {
            return false;
        }
    }
    true
}

fn difference(before: &Sockets, now: &Sockets) -> Vec<DirEvent> {
    let gone = before.iter().filter(|(path, identity)| now.get(*path) != Some(identity));
    let new = now.iter().filter(|(path, identity)| before.get(*path) != Some(identity));
    let gone = gone.map(|(path, _)| DirEvent::Removed(path.clone()));
    gone.chain(new.map(|(path, _)| DirEvent::Created(path.clone()))).collect()
}

async fn look(dir: &Path, watches: &Watches) -> io::Result<Sockets> {
    let (dir, mut watches) = (dir.to_path_buf(), watches.clone());
    blocking(move || {
        let mut sockets = Sockets::new();
        look_into(&dir, &mut watches, &mut sockets, DEPTH_MAX)?;
        Ok(sockets)
    })
    .await
}

fn look_into(dir: &Path, watches: &mut Watches, sockets: &mut Sockets, depth: usize) -> io::Result<()> {
    if depth == 0 {
        return Ok(());
    }
    // Watched before it is read: nothing that appears in between is missed. Watching twice is watching once.
    let changes = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVE;
    let entries = match watches.add(dir, changes).and_then(|_| fs::read_dir(dir)) {
        Ok(entries) => entries,
        // It went while we looked; its parent will tell.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
        if metadata.is_dir() {
            look_into(&entry.path(), watches, sockets, depth - 1)?;
        } else if metadata.file_type().is_socket() {
            sockets.insert(entry.path(), Identity { inode: metadata.ino(), born: metadata.created().ok() });
        }
    }
    Ok(())
}
