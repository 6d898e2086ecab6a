//! `bowline driver …`: a CSI driver on its own, for any container orchestrator.

mod check;
mod local;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Run a CSI driver on its own socket
#[derive(Subcommand)]
pub enum Driver {
    Local(local::Local),
}

impl Driver {
    pub async fn run(self) -> Result<ExitCode> {
        let Self::Local(local) = self;
        local.run().await
    }
}
