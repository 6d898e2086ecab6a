//! The binary's parts: command line, wiring of all roles in one process, the demo.

pub mod apiserver;
pub mod cli;
pub mod demo;
pub mod drivers;
pub mod logging;
pub mod store;
pub mod terminal;
pub mod up;

use std::process::ExitCode;

use anyhow::{Context, Result};

use cli::Command;

/// Runs a subcommand to its end.
pub fn run(command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the async runtime")?;
    runtime.block_on(async {
        match command {
            Command::Up(up) => up.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::KubeApiserver(server) => server.run().await,
            Command::Driver(driver) => driver.run().await,
            Command::Store(store) => store.run().await,
            Command::ContainerShim { .. }
            | Command::ContainerInit { .. }
            | Command::ContainerExec { .. }
            | Command::ContainerEnter { .. } => Ok(ExitCode::FAILURE),
        }
    })
}
