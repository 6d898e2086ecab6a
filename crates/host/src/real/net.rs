//! UNIX and TCP sockets.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{CWD, RenameFlags};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::watch;
use crate::net::{BoxStream, DirEvent, Listener, Net};

/// Only the owner may connect: whoever speaks CSI owns the machine's volumes.
const SOCKET_MODE: u32 = 0o600;

/// How long a socket must answer before it counts as served: between fork and exec a child has our closed ones open.
const SERVED_TRIES: u32 = 20;
const SERVED_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct RealNet;

struct RealListener(UnixListener);

#[async_trait]
impl Listener for RealListener {
    async fn accept(&mut self) -> io::Result<BoxStream> {
        let (stream, _) = self.0.accept().await?;
        Ok(Box::new(stream))
    }
}

struct RealTcpListener(TcpListener);

#[async_trait]
impl Listener for RealTcpListener {
    async fn accept(&mut self) -> io::Result<BoxStream> {
        let (stream, _) = self.0.accept().await?;
        Ok(Box::new(stream))
    }
}

/// Makes room for a new socket: removes one that nobody answers on, and nothing else.
async fn clear_stale(path: &Path) -> io::Result<()> {
    let in_use = |why: &str| io::Error::new(io::ErrorKind::AddrInUse, format!("`{}` {why}", path.display()));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(in_use("exists and is no socket")),
        Ok(_) => {}
    }
    for _ in 0..SERVED_TRIES {
        match UnixStream::connect(path).await {
            Ok(_) => tokio::time::sleep(SERVED_PAUSE).await,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return fs::remove_file(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Err(in_use("is served by another process"))
}

/// Binds under a hidden name first: the socket appears at its path with its mode set and already listening.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let hidden = path.with_file_name(hidden_name(path));
    let _ = fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden)?;
    let placed = fs::set_permissions(&hidden, Permissions::from_mode(SOCKET_MODE)).and_then(|()| {
        rustix::fs::renameat_with(CWD, &hidden, CWD, path, RenameFlags::NOREPLACE).map_err(Into::into)
    });
    if placed.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    placed.map(|()| listener)
}

/// Ignored by those who look for sockets, and taken over by the next try after a crash.
fn hidden_name(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push("~");
    name
}

#[async_trait]
impl Net for RealNet {
    async fn listen(&self, path: &Path) -> io::Result<Box<dyn Listener>> {
        clear_stale(path).await?;
        Ok(Box::new(RealListener(bind(path)?)))
    }

    async fn connect(&self, path: &Path) -> io::Result<BoxStream> {
        Ok(Box::new(UnixStream::connect(path).await?))
    }

    async fn listen_tcp(&self, address: &str) -> io::Result<(SocketAddr, Box<dyn Listener>)> {
        let listener = TcpListener::bind(address).await?;
        Ok((listener.local_addr()?, Box::new(RealTcpListener(listener))))
    }

    async fn connect_tcp(&self, address: &str) -> io::Result<BoxStream> {
        let stream = TcpStream::connect(address).await?;
        // Small answers must not wait for each other.
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
    }

    async fn source_address(&self, address: &str) -> io::Result<IpAddr> {
        let target = tokio::net::lookup_host(address).await?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Connecting a UDP socket only chooses the route.
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(target).await?;
        Ok(socket.local_addr()?.ip())
    }

    async fn watch_dir(&self, dir: &Path) -> io::Result<mpsc::Receiver<DirEvent>> {
        watch::watch(dir).await
    }
}
