//! UNIX sockets, the directory watch that finds them, and TCP for those who only look.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub type BoxStream = Box<dyn Stream>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirEvent {
    /// A socket stands at this path; sent for those that were there before the watch, too.
    Created(PathBuf),
    Removed(PathBuf),
}

#[async_trait]
pub trait Listener: Send {
    async fn accept(&mut self) -> io::Result<BoxStream>;
}

#[async_trait]
pub trait Net: Send + Sync {
    /// Binds a UNIX socket with mode 0600. A stale socket is replaced; another kind of file, or a socket that
    /// still answers, is an error.
    async fn listen(&self, path: &Path) -> io::Result<Box<dyn Listener>>;
    async fn connect(&self, path: &Path) -> io::Result<BoxStream>;
    /// Binds `HOST:PORT` and says which address that became; port 0 means any free one.
    async fn listen_tcp(&self, address: &str) -> io::Result<(SocketAddr, Box<dyn Listener>)>;
    /// Connects to `HOST:PORT`.
    async fn connect_tcp(&self, address: &str) -> io::Result<BoxStream>;
    /// The addresses of a host name.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
    /// The address of this machine that packets to `HOST:PORT` would come from. Sends none.
    async fn source_address(&self, address: &str) -> io::Result<IpAddr>;
    /// Reports sockets appearing in and vanishing from a directory, which is created if missing.
    /// Names that start with a dot, and anything that is not a socket, are ignored.
    async fn watch_dir(&self, dir: &Path) -> io::Result<mpsc::Receiver<DirEvent>>;
}
