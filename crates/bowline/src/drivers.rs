//! `bowline driver …`: a CSI driver on its own, for any container orchestrator.

mod check;
mod local;

use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_drivers::share::{self, ShareFlags};
use bowline_host::real::{self, RealConfig};
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

use crate::up::signal;

/// Run a CSI driver on its own socket
#[derive(Subcommand)]
pub enum Driver {
    Local(local::Local),
    Share(ShareFlags),
}

impl Driver {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Local(local) => local.run().await,
            Self::Share(flags) => serve_shares(flags).await,
        }
    }
}

async fn serve_shares(flags: ShareFlags) -> Result<ExitCode> {
    crate::logging::start("info");
    let stop = CancellationToken::new();
    signal::cancel_on_signal(stop.clone())?;
    let host = real::host(RealConfig::new(&flags.pool)).context("open this machine")?;
    share::run(host, flags.config()?, flags.endpoint.path(), stop).await?;
    Ok(ExitCode::SUCCESS)
}
