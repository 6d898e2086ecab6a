//! Sockets of the fake machine: streams in memory between tasks of one runtime.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
/// First port given out where any will do, as Linux has it.
const FIRST_FREE_PORT: u16 = 32768;

/// Listening sockets and directory watches.
#[derive(Default)]
pub(super) struct Sockets {
    listeners: BTreeMap<Ino, mpsc::Sender<BoxStream>>,
    watches: Vec<(PathBuf, mpsc::Sender<DirEvent>)>,
    tcp: BTreeMap<SocketAddr, mpsc::Sender<BoxStream>>,
}

impl Sockets {
    fn alive(&self, ino: Ino) -> Option<&mpsc::Sender<BoxStream>> {
        self.listeners.get(&ino).filter(|sender| !sender.is_closed())
    }

    /// Takes an address, or the first free port of it.
    fn bind_tcp(&mut self, mut address: SocketAddr) -> io::Result<(SocketAddr, mpsc::Receiver<BoxStream>)> {
        self.tcp.retain(|_, sender| !sender.is_closed());
        if address.port() == 0 {
            let taken = |port: &u16| self.tcp.contains_key(&SocketAddr::new(address.ip(), *port));
            let free = (FIRST_FREE_PORT..=u16::MAX).find(|port| !taken(port));
            address.set_port(free.ok_or(Errno::EADDRINUSE)?);
        }
        if self.tcp.contains_key(&address) {
            return Err(Errno::EADDRINUSE.into());
        }
        let (sender, receiver) = mpsc::channel(BACKLOG);
        self.tcp.insert(address, sender);
        Ok((address, receiver))
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
        reach(sender).await
    }

    /// Names are not resolved: a fake machine has no name server.
    async fn listen_tcp(&self, address: &str) -> io::Result<(SocketAddr, Box<dyn Listener>)> {
        let mut world = self.world();
        world.check_io("listen_tcp")?;
        let address = address.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let (address, receiver) = world.sockets.bind_tcp(address)?;
        Ok((address, Box::new(FakeListener(receiver))))
    }

    async fn connect_tcp(&self, address: &str) -> io::Result<BoxStream> {
        let address: SocketAddr =
            address.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        FakeHost::connect_tcp(self, address).await
    }

    /// No name but `localhost` leads anywhere.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "localhost" => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    async fn source_address(&self, _: &str) -> io::Result<IpAddr> {
        Ok(IpAddr::V4(Ipv4Addr::LOCALHOST))
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

impl FakeHost {
    /// Watches of directories end, as when the kernel has no more room for them.
    pub fn end_dir_watches(&self) {
        self.world().sockets.watches.clear();
    }

    /// A connection from somewhere else to a TCP port of this machine.
    pub async fn connect_tcp(&self, address: SocketAddr) -> io::Result<BoxStream> {
        let sender = self.world().sockets.tcp.get(&address).cloned();
        reach(sender).await
    }
}

/// Hands one end of a fresh stream to whoever listens.
async fn reach(listener: Option<mpsc::Sender<BoxStream>>) -> io::Result<BoxStream> {
    let listener = listener.ok_or(Errno::ECONNREFUSED)?;
    let (ours, theirs) = duplex(STREAM_BUFFER);
    listener.send(Box::new(theirs)).await.map_err(|_| Errno::ECONNREFUSED)?;
    Ok(Box::new(ours))
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
