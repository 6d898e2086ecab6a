//! Figures for docs/benchmarks.md: journeys, start-up, memory, size. Printed, never asserted.

mod journeys;
mod split;
mod startup;

use std::path::PathBuf;

use anyhow::{Context, Result};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let program = std::env::args_os().nth(1).map(PathBuf::from).context("usage: bowline-bench PATH-OF-BOWLINE")?;
    let program = program.canonicalize().with_context(|| format!("find {}", program.display()))?;
    let journeys = std::env::var("JOURNEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    startup::measure(&program).await?;
    journeys::measure(&program, journeys).await
}
