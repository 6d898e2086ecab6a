//! A server on a port, with certificates and a kubeconfig beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bowline_apiserver::auth::Settings;
use bowline_apiserver::kinds::plugins::Plugins;
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

/// A server with every kind and these admission plugins, and the objects that every cluster starts with.
pub async fn server(store: Store, host: &Host, settings: Settings, plugins: &Plugins) -> Result<Server> {
    let mut registry = Registry::new();
    kinds::register::register(&mut registry);
    kinds::register::register_admission_of(&mut registry, plugins);
    let (clock, random) = (host.clock.clone(), host.random.clone());
    let server = Server::guarded(store, registry, clock, random, settings);
    server.read_process_through(host.disk.clone());
    server.bootstrap().await.map_err(|status| anyhow!("create the first objects: {status:?}"))?;
    Ok(server)
}

/// The listening server.
pub struct Serving {
    pub address: SocketAddr,
    /// The certificate that clients trust, PEM.
    pub authority: String,
    pub ended: JoinHandle<()>,
}

impl Serving {
    /// Certificates come from the authority kept in `dir`; the administrator's go into the kubeconfig. Clients may
    /// show certificates of that authority and of `clients`, PEM.
    pub async fn start(
        server: Server,
        listener: TcpListener,
        dir: &Path,
        clients: Option<String>,
        kubeconfig: &Path,
        stop: CancellationToken,
    ) -> Result<Self> {
        let address = listener.local_addr().context("read the API server's address")?;
        let now = jiff::Timestamp::now();
        let authority = Authority::open(dir, now)?;
        let trusted: Vec<&str> = std::iter::once(authority.certificate()).chain(clients.as_deref()).collect();
        let tls = tls::config_trusting(&trusted, &authority.issue_server(&[address.ip()], now)?)?;
        let published = server.publish_client_authorities(&trusted.concat()).await;
        published.map_err(|status| anyhow!("publish the clients' authorities: {}", status.message))?;
        let admin = authority.issue_admin(now)?;
        kubeconfig::write_kubeconfig(kubeconfig, &format!("https://{address}"), &authority, &admin)?;
        let ended = async move {
            let roles = server.clone();
            tokio::join!(
                tls::serve(listener, server, tls, stop.clone()),
                roles.follow_aggregation(stop.clone()),
                roles.follow_namespaces(stop.clone()),
                roles.follow_definitions(stop),
            );
        };
        let authority = authority.certificate().to_owned();
        Ok(Self { address, authority, ended: tokio::spawn(ended) })
    }
}
