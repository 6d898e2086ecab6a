//! The CSI drivers, each on its socket below the kubelet's directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_drivers::local::{self, LocalConfig, NamedNode};
use bowline_drivers::share::{self, Further, ShareConfig};
use bowline_host::Host;
use bowline_machinery::RunError;
use bowline_roles::crew::Crew;
use bowline_roles::embedded::Driver;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::nodes::Members;
use super::running::chain;

/// Whoever reaches a driver's socket owns the machine's volumes.
const SOCKET_DIR_MODE: u32 = 0o700;

/// The running drivers. They outlive the roles, which need them to take volumes down.
pub struct Drivers {
    settings: Vec<Driver>,
    crew: Crew,
    stop: CancellationToken,
}

impl Drivers {
    /// The drivers serve only a pool of this installation, or a new one.
    pub async fn start(config: &Config, members: &Members, host: &Host, installation: &str) -> Result<Self> {
        let (pool, node) = (config.pool(), config.node_name.clone());
        let mut local_config = LocalConfig::new(pool.clone(), node.clone())?;
        local_config.installation = Some(installation.to_owned());
        let mut share_config = ShareConfig::new(pool, node)?;
        share_config.installation = Some(installation.to_owned());
        for node in members.all() {
            let [local, share] = [local::NAME, share::NAME].map(|driver| node.socket(driver));
            make_folder(host, &local).await?;
            make_folder(host, &share).await?;
            let named = NamedNode { endpoint: Some(local), ..NamedNode::new(node.name.clone())? };
            local_config.others.push(named);
            share_config.further.push(Further { node_id: node.name.clone(), endpoint: share });
        }
        // All are this machine: a volume can move between them.
        let here = local_config.node.topology.clone();
        local_config.share_topology(&here);
        let mut drivers =
            Self { settings: Vec::new(), crew: Crew::default(), stop: CancellationToken::new() };

        let socket = drivers.add(config, host, local::NAME, true).await?;
        let (own, stop) = (host.clone(), drivers.stop.clone());
        drivers.run(local::NAME, async move { local::run(own, local_config, &socket, stop).await });

        let socket = drivers.add(config, host, share::NAME, false).await?;
        let (own, stop) = (host.clone(), drivers.stop.clone());
        drivers.run(share::NAME, async move { share::run(own, share_config, &socket, stop).await });
        Ok(drivers)
    }

    /// Prepares the place of a driver's socket.
    async fn add(&mut self, config: &Config, host: &Host, name: &str, attaches: bool) -> Result<PathBuf> {
        let socket = config.driver_socket(name);
        make_folder(host, &socket).await?;
        self.settings.push(Driver { name: name.to_owned(), socket: socket.clone(), attaches });
        Ok(socket)
    }

    fn run(
        &self,
        name: &'static str,
        driver: impl Future<Output = Result<(), bowline_drivers::RunError>> + Send + 'static,
    ) {
        let ended =
            move |failure| RunError::Refused(format!("the CSI driver {name} ended: {}", chain(&failure)));
        self.crew.run(async move { driver.await.map_err(ended) });
    }

    /// What the roles have to know of them.
    pub fn settings(&self) -> Vec<Driver> {
        self.settings.clone()
    }

    /// Resolves when a driver has ended by itself.
    pub async fn failed(&self) -> Arc<RunError> {
        self.crew.failed().await
    }

    /// Lets running operations end. A failure was told by [`Drivers::failed`] already.
    pub async fn stop(&self) {
        self.stop.cancel();
        let _ = self.crew.finished().await;
    }
}

async fn make_folder(host: &Host, socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    let made = async {
        host.disk.create_dir_all(folder, SOCKET_DIR_MODE).await?;
        host.disk.restrict(folder, SOCKET_DIR_MODE).await
    };
    made.await.map(drop).with_context(|| format!("create `{}`", folder.display()))
}
