//! From a command line to a program that can run.

use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::flags::{LoggingArgs, Stop, parse};

use super::Run;

/// A program with its arguments, ready to run.
pub struct Ready {
    pub logging: LoggingArgs,
    /// One line about flags without effect.
    pub warning: Option<String>,
    pub run: Pin<Box<dyn Future<Output = Result<ExitCode>> + Send>>,
}

pub(super) fn start<P: Run>(argv0: &str, words: &[String]) -> Result<Ready, Stop> {
    // Upstream's programs notice this after parsing, without printing how they are used.
    let wrong = |why| Stop { text: format!("{argv0}: {why}\n"), to_stderr: true, code: 1 };
    let words = P::expand(words).map_err(wrong)?;
    let parsed = parse::<P>(&P::PROGRAM, argv0, &words)?;
    parsed.args.validate().map_err(wrong)?;
    let logging = parsed.args.logging().clone();
    Ok(Ready { logging, warning: parsed.warning, run: Box::pin(parsed.args.run()) })
}
