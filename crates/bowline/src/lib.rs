//! The binary's parts: command line, wiring of all roles in one process, the demo.

pub mod apiserver;
pub mod audit;
pub mod cli;
pub mod demo;
pub mod drivers;
pub mod installation;
pub mod logging;
pub mod programs;
pub mod rbac;
pub mod store;
pub mod terminal;
pub mod up;

use std::process::ExitCode;

use anyhow::{Context, Result};

use cli::Command;

/// Schemas and objects are walked by functions that call themselves; only what is used of this takes memory.
const STACK: usize = 16 << 20;

/// Runs a subcommand to its end.
pub fn run(command: Command) -> Result<ExitCode> {
    block_on(async {
        match command {
            Command::Up(up) => up.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::KubeApiserver(server) => server.run().await,
            Command::Driver(driver) => driver.run().await,
            Command::Store(store) => store.run().await,
            Command::Node(node) => node.run().await,
            Command::Rbac(rbac) => rbac.run(),
            Command::Audit(audit) => audit.run().await,
        }
    })
}

/// Prepares the process and runs `work` to its end.
fn block_on(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    // Before anything is created, and before there is a second thread: the mask belongs to the process.
    bowline_host::real::private_by_default();
    bowline_host::real::raise_open_files().context("raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .context("start the async runtime")?;
    runtime.block_on(work)
}
