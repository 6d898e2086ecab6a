//! Everything in one process: started in order, stopped in reverse.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bowline_apiserver::kinds::plugins::Plugins;
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use bowline_machinery::client::{Clients, Subject};
use bowline_machinery::{Journal, Ports, client};
use bowline_roles::embedded::{Embedded, Settings};
use bowline_roles::kubelet::Owned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::drivers::Drivers;
use super::link::Link;
use super::nodes::{Members, Nodes, Prepared, left_out};
use super::subjects::Subjects;
use super::{Config, bootstrap, older, orphans, preflight};
use crate::apiserver::{self, Serving};
use crate::installation::Installation;

/// How long containers and unmounts may take after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(30);

/// A running installation.
pub struct Running {
    pub config: Config,
    pub ports: Ports,
    pub address: SocketAddr,
    roles: Embedded,
    nodes: Nodes,
    drivers: Drivers,
    server: JoinHandle<()>,
    server_stop: CancellationToken,
    /// Volumes without an owner, until they are dealt with.
    orphans: Mutex<Vec<orphans::Orphan>>,
    _kubelet_dir: Owned,
    /// Dropped last: the data directory is ours until everything in it is closed.
    _installation: Installation,
}

impl Running {
    /// Starts everything and returns when the node is ready and the drivers registered.
    pub async fn start(config: Config) -> Result<Self> {
        let running = Self::launch(config).await?;
        running.ready().await?;
        Ok(running)
    }

    /// Starts everything and returns when it can be stopped again in order, ready or not.
    pub async fn launch(mut config: Config) -> Result<Self> {
        let mut doors = RealConfig::new(&config.data_dir);
        doors.shim.clone_from(&config.shim);
        let host = real::host(doors).context("open this machine")?;
        preflight::check(&host)?;
        let mut installation = Installation::open(&config.data_dir, host.random.as_ref())?;
        let listener = preflight::bind(config.listen, "--listen").await?;
        config.data_dir = canonical(&host, &config.data_dir).await?;

        let address = listener.local_addr().context("read the API server's address")?;
        let store = config.keeping.open(Some(&config.store()), &mut installation, &host).await?;
        let settings = apiserver::access::defaults(&config.data_dir, address)?;
        let server = apiserver::server(store, &host, settings, &Plugins::default()).await?;
        let client = client::in_process(server.clone());
        let kubelet_dir = older::take_kubelet_dir(&config, &host, &client, &mut installation).await?;
        config.kubelet_dir = canonical(&host, &config.kubelet_dir).await?;

        let subjects = Arc::new(Subjects(server.clone()));
        let node = subjects.client(&Subject::Node(config.node_name.clone()))?;
        let link = Link::make(&host)?;
        server.set_node_proxy(link.proxy);
        server.set_allow_privileged(config.allow_privileged);
        let server_stop = CancellationToken::new();
        let serving = Serving::start(
            server,
            listener,
            &config.data_dir,
            None,
            &config.kubeconfig(),
            server_stop.clone(),
        )
        .await?;

        bootstrap::bootstrap(&client).await?;
        let orphans = orphans::find(&config, &host, &client).await.unwrap_or_else(|error| {
            tracing::warn!(error = format!("{error:#}"), "orphan volumes are not looked for");
            Vec::new()
        });
        let members = Members::find(&config, &host).await?;
        let drivers = Drivers::start(&config, &members, &host, installation.id()).await?;
        let ports = Ports::new(client, host, Journal::default(), CancellationToken::new());
        let ports = ports.with_clients(subjects);
        let settings = Settings {
            node_name: config.node_name.clone(),
            kubelet_dir: config.kubelet_dir.clone(),
            drivers: drivers.settings(),
            hidden: vec![config.data_dir.clone(), config.kubelet_dir.clone()],
            allow_privileged: config.allow_privileged,
            root_ca: Some(serving.authority.clone()),
            kubelet: Some(link.kubelet),
        };
        let node = ports.as_user(node);
        left_out::mark(&ports, &members.dropped).await;
        let further = Prepared::make(&config, members, &ports.host, serving.address, &link.issuer).await?;
        let roles = Embedded::start_as(&ports, &node, settings).await?;
        let nodes = Nodes::start(further, &ports)?;
        Ok(Self {
            config,
            ports,
            address: serving.address,
            roles,
            nodes,
            drivers,
            server: serving.ended,
            server_stop,
            orphans: Mutex::new(orphans),
            _kubelet_dir: kubelet_dir,
            _installation: installation,
        })
    }

    /// Not waited for: a large pool shall not delay the start.
    fn settle(&self) {
        let orphans = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        let (config, ports) = (self.config.clone(), self.ports.clone());
        tokio::spawn(async move {
            let stop = ports.stop.clone();
            stop.run_until_cancelled(orphans::settle(&config, &ports, orphans)).await
        });
    }

    /// The node is Ready and knows the drivers; a role that fails meanwhile says why.
    pub async fn ready(&self) -> Result<()> {
        tokio::select! {
            biased;
            failure = self.failed() => return Err(failure),
            () = async { tokio::join!(self.roles.ready(), self.nodes.ready(&self.ports)); } => {}
        }
        self.settle();
        Ok(())
    }

    /// Names of the nodes in other processes.
    pub fn further_nodes(&self) -> Vec<String> {
        self.nodes.names()
    }

    /// Resolves when a role or a driver has ended by itself.
    pub async fn failed(&self) -> anyhow::Error {
        tokio::select! {
            biased;
            failure = self.drivers.failed() => anyhow!("{}", chain(failure.as_ref())),
            failure = self.roles.failed() => anyhow!("{}", chain(failure.as_ref())),
        }
    }

    /// Ends containers, unmounts their volumes, then stops all parts; objects stay as they are.
    pub async fn stop(self) -> Result<()> {
        let (drained, mut left) = tokio::join!(self.roles.drain(DRAIN), self.nodes.stop());
        self.ports.stop.cancel();
        let roles = self.roles.finished().await;
        self.drivers.stop().await;
        self.server_stop.cancel();
        self.server.await.context("wait for the API server")?;
        roles.map_err(|error| anyhow!("{}", chain(error.as_ref())))?;
        if !drained {
            left.push(self.config.node_name);
        }
        if !left.is_empty() {
            return Err(anyhow!(
                "some containers or volumes of {} did not end within {} s; the next start takes them over",
                left.join(", "),
                DRAIN.as_secs()
            ));
        }
        Ok(())
    }
}

/// The kernel names mounts by their real path: behind a link, none of ours would be found again.
async fn canonical(host: &Host, dir: &Path) -> Result<PathBuf> {
    host.disk.canonical(dir).await.with_context(|| format!("resolve `{}`", dir.display()))
}

/// An error and its causes, on one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
