//! `bowline driver …`: a CSI driver on its own, for any container orchestrator.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_drivers::local::{self, LocalFlags};
use bowline_drivers::share::{self, ShareFlags};
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

use crate::up::signal;

/// Run a CSI driver on its own socket
#[derive(Subcommand)]
pub enum Driver {
    Local(LocalFlags),
    Share(ShareFlags),
}

impl Driver {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("info");
        let stop = CancellationToken::new();
        signal::cancel_on_signal(stop.clone())?;
        match self {
            Self::Local(flags) => {
                local::run(machine(&flags.pool)?, flags.config()?, flags.endpoint.path(), stop).await?;
            }
            Self::Share(flags) => {
                share::run(machine(&flags.pool)?, flags.config()?, flags.endpoint.path(), stop).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn machine(pool: &Path) -> Result<Host> {
    real::host(RealConfig::new(pool)).context("open this machine")
}
