//! `bowline driver local`: serve volumes, or look after their pool.

use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_drivers::local::{self, LocalFlags};
use bowline_host::real::{self, RealConfig};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use tokio_util::sync::CancellationToken;

use super::check::Check;
use crate::up::signal;

const CHECK: &str = "check";

/// With flags it serves; its subcommands have flags of their own.
pub enum Local {
    Serve(LocalFlags),
    Check(Check),
}

impl Args for Local {
    fn augment_args(command: Command) -> Command {
        let check = Check::augment_args(Command::new(CHECK));
        LocalFlags::augment_args(command)
            .subcommand(check)
            .subcommand_negates_reqs(true)
            .args_conflicts_with_subcommands(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Local {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match matches.subcommand() {
            Some((CHECK, matches)) => Check::from_arg_matches(matches).map(Self::Check),
            _ => LocalFlags::from_arg_matches(matches).map(Self::Serve),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Local {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Serve(flags) => serve(flags).await,
            Self::Check(check) => Ok(check.run().await),
        }
    }
}

async fn serve(flags: LocalFlags) -> Result<ExitCode> {
    crate::logging::start("info");
    let host = real::host(RealConfig::new(&flags.pool)).context("open this machine")?;
    let config = flags.config()?;
    let stop = CancellationToken::new();
    signal::cancel_on_signal(stop.clone())?;
    local::run(host, config, flags.endpoint.path(), stop).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        local: Local,
    }

    fn parse(words: &str) -> Result<Local, String> {
        let words = std::iter::once("local").chain(words.split_whitespace());
        Program::try_parse_from(words).map(|program| program.local).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_serve_and_check_is_a_subcommand() {
        let served = parse("--endpoint /run/csi.sock --pool /pool --node-id n1");
        assert!(matches!(served, Ok(Local::Serve(flags)) if flags.pool.ends_with("pool")));
        let checked = parse("check --pool /pool --repair -o json");
        assert!(matches!(checked, Ok(Local::Check(check)) if check.repair));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (words, missing) in [("", "--endpoint"), ("--endpoint /s", "--pool"), ("check", "--pool")] {
            let refused = parse(words).err().expect("incomplete");
            assert!(refused.contains(missing), "{words:?}: {refused}");
        }
        assert!(parse("--node-id n1 check --pool /pool").is_err(), "flags of serving do not go with it");
    }
}
