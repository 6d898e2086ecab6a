//! `bowline up`: API server, controllers, scheduler, sidecars, kubelet and driver in one process.

mod bootstrap;
mod config;
pub mod crds;
mod drivers;
mod link;
pub mod nodes;
mod older;
mod orphans;
mod preflight;
mod running;
pub mod signal;
mod subjects;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::store::StoreArgs;
use crate::terminal::Terminal;
pub use bootstrap::{CLASS, CLASS_IMMEDIATE, CLASS_SHARE};
pub use config::Config;
pub use preflight::bind;
pub use running::{Running, chain};

/// Run everything on this machine: API server, controllers, scheduler, sidecars, kubelet, CSI driver
// Upstream's flags may be repeated; the last one wins.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub struct Up {
    /// Where everything is kept: objects, volumes, certificates, the kubeconfig
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bowline")]
    data_dir: PathBuf,
    /// Address of the API server
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where staging and publish paths and the driver's socket stand, laid out as upstream's kubelet does. One that
    /// another kubelet uses is refused
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,
    /// Name of this node; the host name by default
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Nodes of this cluster; further ones are NAME-2, NAME-3 and so on, each a kubelet of its own on this machine. `bowline
    /// node cut NAME` cuts one off from the API server. With fewer than before, containers of the others are ended
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// Let pods have privileged containers and capabilities that reach beyond a container; a pod that uses them owns
    /// this machine
    #[arg(long)]
    allow_privileged: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl Up {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("info");
        let terminal = Terminal::default();
        let started = Instant::now();
        let mut config = Config::new(self.data_dir, self.listen, self.kubelet_dir, self.node_name)?;
        config.keeping = self.store;
        config.nodes = self.nodes;
        config.allow_privileged = self.allow_privileged;
        // Before anything runs that a signal would have to stop.
        let interrupted = CancellationToken::new();
        signal::cancel_on_signal(interrupted.clone())?;
        let running = Running::launch(config).await?;
        let failure = tokio::select! {
            biased;
            () = interrupted.cancelled() => None,
            failure = serve(&terminal, &running, started) => Some(failure),
        };
        terminal.line(
            "stopping: containers end, their volumes are unmounted; Ctrl-C again ends at once and leaves the rest to the next start",
        );
        running.stop().await?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Until a role or a driver ends by itself, also while it starts.
async fn serve(terminal: &Terminal, running: &Running, started: Instant) -> anyhow::Error {
    if let Err(failure) = running.ready().await {
        return failure;
    }
    greet(terminal, running, started);
    running.failed().await
}

fn greet(terminal: &Terminal, running: &Running, started: Instant) {
    let config = &running.config;
    terminal.line(format!("bowline is up in {} ms", started.elapsed().as_millis()));
    terminal.line(format!("  API server   https://{}", running.address));
    terminal.line(format!("  kubeconfig   {}", config.kubeconfig().display()));
    terminal.line(format!(
        "  node         {} (kubelet directory {})",
        config.node_name,
        config.kubelet_dir.display()
    ));
    for name in running.further_nodes() {
        terminal.line(format!("               {name} (cut it off with `bowline node cut {name}`)"));
    }
    terminal.line(format!(
        "  classes      {CLASS} (default, WaitForFirstConsumer), {CLASS_IMMEDIATE}, {CLASS_SHARE} (ReadWriteMany)"
    ));
    terminal.line("");
    terminal.line(format!("  export KUBECONFIG={}", config.kubeconfig().display()));
    terminal.line("  kubectl get storageclass,node");
    terminal.line("");
    terminal.line("Ctrl-C stops containers and unmounts their volumes; the next start goes on from there");
}
