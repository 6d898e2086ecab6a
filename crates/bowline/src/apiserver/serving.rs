//! A server on a port, with certificates and a kubeconfig beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bowline_apiserver::{Registry, Server, Store, certs::Authority, kinds, kubeconfig, tls};
use bowline_host::Host;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where objects are kept.
pub enum Place {
    Memory,
    Directory(PathBuf),
}

pub async fn open(place: Place) -> Result<Store> {
    match place {
        Place::Memory => Ok(Store::memory()),
        Place::Directory(dir) => Ok(tokio::task::spawn_blocking(move || Store::open_file(&dir)).await??),
    }
}

/// A server with every kind and every admission plugin, and the objects that every cluster starts with.
pub async fn server(store: Store, host: &Host) -> Result<Server> {
    let mut registry = Registry::new();
    kinds::register::register(&mut registry);
    kinds::register::register_admission(&mut registry);
    let server = Server::new(store, registry, host.clock.clone(), host.random.clone());
    server.read_process_through(host.disk.clone());
    server.bootstrap().await.map_err(|status| anyhow!("create the first objects: {status:?}"))?;
    Ok(server)
}

/// The listening server.
pub struct Serving {
    pub address: SocketAddr,
    pub ended: JoinHandle<()>,
}

impl Serving {
    /// Certificates come from the authority kept in `dir`; the administrator's go into the kubeconfig.
    pub fn start(
        server: Server,
        listener: TcpListener,
        dir: &Path,
        kubeconfig: &Path,
        stop: CancellationToken,
    ) -> Result<Self> {
        let address = listener.local_addr().context("read the API server's address")?;
        let now = jiff::Timestamp::now();
        let authority = Authority::open(dir, now)?;
        let tls = tls::config(&authority, &authority.issue_server(&[address.ip()], now)?)?;
        let admin = authority.issue_admin(now)?;
        kubeconfig::write_kubeconfig(kubeconfig, &format!("https://{address}"), &authority, &admin)?;
        Ok(Self { address, ended: tokio::spawn(tls::serve(listener, server, tls, stop)) })
    }
}
