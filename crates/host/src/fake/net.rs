//! Sockets of the fake machine: streams in memory between tasks of one runtime.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nix::errno::Errno;
use tokio::io::duplex;
use tokio::sync::mpsc;

use super::FakeHost;
use super::tree::{Ino, Node, Tree};
use crate::disk::{Disk, Kind};
use crate::net::{BoxStream, DirEvent, Listener, Net};

/// Bytes one side may be ahead of the other.
const STREAM_BUFFER: usize = 64 << 10;
/// Connections waiting to be accepted, as listen(2)'s backlog.
const BACKLOG: usize = 128;
/// Directory events a watcher may be behind.
const WATCH_BUFFER: usize = 4096;
/// Mode of the directory that a watch creates.
const DIR_MODE: u32 = 0o750;

/// Listening sockets and directory watches.
#[derive(Default)]
pub(super) struct Sockets {
    listeners: BTreeMap<Ino, mpsc::Sender<BoxStream>>,
    watches: Vec<(PathBuf, mpsc::Sender<DirEvent>)>,
}

impl Sockets {
    fn alive(&self, ino: Ino) -> Option<&mpsc::Sender<BoxStream>> {
        self.listeners.get(&ino).filter(|sender| !sender.is_closed())
    }

    pub fn removed(&mut self, path: &Path) {
        self.tell(path, DirEvent::Removed(path.into()));
    }

    /// A watcher that is too far behind loses events, and says so.
    fn tell(&mut self, path: &Path, event: DirEvent) {
        self.watches.retain(|(_, watcher)| !watcher.is_closed());
        for (dir, watcher) in &self.watches {
            if visible(dir, path) && watcher.try_send(event.clone()).is_err() {
                tracing::warn!(dir = %dir.display(), "a directory watcher is too far behind");
            }
        }
    }
}

/// Whether a watch of `dir` reports `path`: below it, and no name on the way starts with a dot.
fn visible(dir: &Path, path: &Path) -> bool {
    let hidden = |rest: &Path| rest.iter().any(|name| name.to_string_lossy().starts_with('.'));
    path.strip_prefix(dir).is_ok_and(|rest| !rest.as_os_str().is_empty() && !hidden(rest))
}

struct FakeListener(mpsc::Receiver<BoxStream>);

#[async_trait]
impl Listener for FakeListener {
    async fn accept(&mut self) -> io::Result<BoxStream> {
        // Closed means that the machine was rebooted under a task that still runs.
        self.0.recv().await.ok_or_else(|| Errno::EBADF.into())
    }
}

#[async_trait]
impl Net for FakeHost {
    async fn listen(&self, path: &Path) -> io::Result<Box<dyn Listener>> {
        let mut world = self.world();
        world.check_io("listen")?;
        let place = world.tree.place(path)?;
        match world.tree.node(&place) {
            None => {}
            Some(Node::Socket(ino)) if world.sockets.alive(*ino).is_none() => world.sockets.removed(path),
            Some(_) => return Err(Errno::EADDRINUSE.into()),
        }
        let ino = world.tree.new_ino();
        world.tree.insert(&place, Node::Socket(ino))?;
        let (sender, receiver) = mpsc::channel(BACKLOG);
        world.sockets.listeners.retain(|_, sender| !sender.is_closed());
        world.sockets.listeners.insert(ino, sender);
        world.sockets.tell(path, DirEvent::Created(path.into()));
        Ok(Box::new(FakeListener(receiver)))
    }

    async fn connect(&self, path: &Path) -> io::Result<BoxStream> {
        let sender = {
            let mut world = self.world();
            world.check_io("connect")?;
            let place = world.tree.place(&world.tree.follow(path)?)?;
            match world.tree.node(&place) {
                None => return Err(Errno::ENOENT.into()),
                Some(Node::Socket(ino)) => world.sockets.alive(*ino).cloned(),
                Some(_) => None,
            }
        };
        let sender = sender.ok_or(Errno::ECONNREFUSED)?;
        let (ours, theirs) = duplex(STREAM_BUFFER);
        sender.send(Box::new(theirs)).await.map_err(|_| Errno::ECONNREFUSED)?;
        Ok(Box::new(ours))
    }

    async fn watch_dir(&self, dir: &Path) -> io::Result<mpsc::Receiver<DirEvent>> {
        self.create_dir_all(dir, DIR_MODE).await?;
        let (sender, receiver) = mpsc::channel(WATCH_BUFFER);
        let mut world = self.world();
        for path in sockets_below(&world.tree, dir)? {
            let _ = sender.try_send(DirEvent::Created(path));
        }
        world.sockets.watches.push((dir.into(), sender));
        Ok(receiver)
    }
}

/// Sockets that stand in a directory already.
fn sockets_below(tree: &Tree, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let place = tree.place(dir)?;
    let Some(nodes) = tree.systems.get(&place.fs) else { return Ok(Vec::new()) };
    let below = nodes.range(place.inner.clone()..).take_while(|(path, _)| path.starts_with(&place.inner));
    let sockets = below.filter(|(_, node)| node.kind() == Kind::Socket);
    let outside = sockets.filter_map(|(path, _)| Some(dir.join(path.strip_prefix(&place.inner).ok()?)));
    Ok(outside.filter(|path| visible(dir, path)).collect())
}
