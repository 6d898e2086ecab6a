//! `bowline`: parse, run one subcommand, report its error in one chain, exit.

use std::io::Write;
use std::process::ExitCode;

use bowline::cli::{Cli, Command};
use bowline::programs::{self, PROGRAMS};

fn main() -> ExitCode {
    if let Some(chosen) = programs::choose(PROGRAMS, std::env::args_os()) {
        return programs::run(chosen);
    }
    let cli = Cli::read();
    match cli.command {
        // First of all: they close what was open and change namespaces before anything else runs.
        Command::ContainerShim { dir } => code(bowline_host::real::shim::shim_main(&dir)),
        Command::ContainerInit { dir } => code(bowline_host::real::shim::init_main(&dir)),
        Command::ContainerExec { dir, caller, argv } => {
            code(bowline_host::real::shim::exec_main(&dir, caller, &argv))
        }
        command => match bowline::run(command) {
            Ok(code) => code,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "bowline: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}
