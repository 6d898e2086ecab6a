//! Figures for docs/benchmarks.md: journeys, start-up, memory, size, drivers. Printed, never asserted.

mod apiserver;
mod args;
mod driver;
mod figures;
mod journeys;
mod medium;
mod memory;
mod pods;
mod programs;
mod report;
mod scratch;
mod sidecars;
mod split;
mod startup;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline::up::signal;
use clap::Parser;
use tokio_util::sync::CancellationToken;

use args::{ApiserverArgs, Cli, Command, DriverArgs, Output, ProgramsArgs};
use report::Report;

/// What shells expect of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let stop = CancellationToken::new();
    match run(Cli::parse(), &stop).await {
        _ if stop.is_cancelled() => {
            eprintln!("bowline-bench: interrupted, cleaned up");
            ExitCode::from(INTERRUPTED)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bowline-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli, stop: &CancellationToken) -> Result<()> {
    signal::cancel_on_signal(stop.clone())?;
    let mut report = Report::default();
    let measured = match &cli.command {
        Command::All { journeys, driver, apiserver, programs } => {
            all(driver, *journeys, apiserver, programs, &mut report, stop).await
        }
        Command::Programs { program, programs } => {
            programs::measure(&found(program)?, programs, &mut report, stop).await
        }
        Command::Sidecars { program, sidecars } => {
            sidecars::measure(&found(program)?, sidecars, &mut report, stop).await
        }
        Command::Apiserver { program, apiserver } => {
            apiserver::measure(&found(program)?, apiserver, &mut report, stop).await
        }
        Command::Pods { program } => pods::measure(&found(program)?, &mut report, stop).await,
        Command::Driver(driver) => driver::measure(driver, &mut report, stop).await,
    };
    // What was measured before a failure took its time, too.
    match cli.output {
        Output::Text => print!("{}", report.text()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    measured
}

async fn all(
    args: &DriverArgs,
    journeys: usize,
    apiserver: &ApiserverArgs,
    programs: &ProgramsArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let program = found(args.program.as_ref().context("name the bowline program")?)?;
    startup::measure(&program, report, stop).await?;
    journeys::measure(&program, journeys, report, stop).await?;
    pods::measure(&program, report, stop).await?;
    programs::measure(&program, programs, report, stop).await?;
    apiserver::measure(&program, apiserver, report, stop).await?;
    driver::measure(args, report, stop).await
}

fn found(program: &Path) -> Result<PathBuf> {
    program.canonicalize().with_context(|| format!("find `{}`", program.display()))
}
