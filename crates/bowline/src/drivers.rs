//! `bowline driver …`: a CSI driver on its own, for any container orchestrator.

use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_drivers::local::{self, LocalFlags};
use bowline_host::real::{self, RealConfig};
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

use crate::up::signal;

/// Run a CSI driver on its own socket
#[derive(Subcommand)]
pub enum Driver {
    Local(LocalFlags),
}

impl Driver {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("info");
        let Self::Local(flags) = self;
        let host = real::host(RealConfig::new(&flags.pool)).context("open this machine")?;
        let config = flags.config()?;
        let stop = CancellationToken::new();
        signal::cancel_on_signal(stop.clone())?;
        local::run(host, config, flags.endpoint.path(), stop).await?;
        Ok(ExitCode::SUCCESS)
    }
}
