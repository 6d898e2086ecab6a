//! `bowline`: parse, run one subcommand, report its error in one chain, exit.

use std::io::Write;
use std::process::ExitCode;

use bowline::cli::Cli;
use bowline::programs::{self, PROGRAMS};

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    // First of all: they close what was open and change namespaces before anything else runs.
    if let Some(status) = bowline_host::real::shim::subcommand(&argv) {
        return code(status);
    }
    if let Some(chosen) = programs::choose(PROGRAMS, argv.clone()) {
        return programs::run(chosen);
    }
    bowline::run(Cli::read(argv).command).unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "bowline: {error:#}");
        ExitCode::FAILURE
    })
}

fn code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}
