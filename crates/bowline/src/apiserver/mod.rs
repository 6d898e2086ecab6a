//! `bowline kube-apiserver`: the API server alone, for upstream's controllers or ours in other processes.

pub mod access;
mod kubelets;
mod limits;
mod serving;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use bowline_apiserver::kinds::plugins::Plugins;
use bowline_host::real::{self, RealConfig};
use tokio_util::sync::CancellationToken;

use crate::installation::Installation;
use crate::store::StoreArgs;
use crate::terminal::Terminal;
use crate::up::{bind, signal};
use access::AccessArgs;
use kubelets::Kubelets;
pub use serving::{Place, Serving, open, server};

/// The API server alone: kubectl, upstream's controllers and Bowline's roles work against it
// Upstream's flags may be repeated; the last one wins.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub struct KubeApiserver {
    /// Where certificates and the kubeconfig are kept, and the objects unless told otherwise
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bowline")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// Port to listen on; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,
    /// Keep objects in memory only: everything is gone when the process ends
    #[arg(long)]
    memory: bool,
    /// Admission plugins to turn on: those that this server has are on anyway
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to turn off, e.g. ServiceAccount where nobody makes the accounts of namespaces
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// Let pods have privileged containers
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    allow_privileged: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kubelets: Kubelets,
}

impl KubeApiserver {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("info");
        let plugins = Plugins::chosen(&self.enable_admission_plugins, &self.disable_admission_plugins)?;
        let host = real::host(RealConfig::new(&self.data_dir)).context("open this machine")?;
        let mut installation = Installation::open(&self.data_dir, host.random.as_ref())?;
        let address = SocketAddr::new(self.bind_address, self.secure_port);
        let listener = bind(address, "--secure-port or --bind-address").await?;
        let dir = self.data_dir.join("store");
        let dir = (!self.memory).then_some(dir.as_path());
        let store = self.store.open(dir, &mut installation, &host).await?;
        let address = listener.local_addr().context("read the API server's address")?;
        let settings = self.access.settings(&self.data_dir, address, host.clock.clone())?;
        let server = server(store, &host, settings, &plugins).await?;
        server.set_node_proxy(self.kubelets.proxy(&host)?);
        server.set_allow_privileged(self.allow_privileged);

        let stop = CancellationToken::new();
        let kubeconfig = self.data_dir.join("kubeconfig");
        let clients = self.access.client_authorities()?;
        let dir = &self.data_dir;
        let serving = Serving::start(server, listener, dir, clients, &kubeconfig, stop.clone()).await?;
        let terminal = Terminal::default();
        terminal.line(format!("API server   https://{}", serving.address));
        terminal.line(format!("kubeconfig   {}", kubeconfig.display()));

        signal::cancel_on_signal(stop.clone())?;
        serving.ended.await.map_err(|error| anyhow!("the API server ended: {error}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
