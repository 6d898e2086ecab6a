//! `--v`, `--logging-format`: how much is logged, and how.

use clap::{Args, ValueEnum};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Logging flags, which every program has.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct LoggingArgs {
    /// Log verbosity: 2 tells why something waits, 5 adds each step towards the API server and the driver
    #[arg(long = "v", short = 'v', value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u32,
    /// Log format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub logging_format: Format,
}

impl LoggingArgs {
    /// The filter of `tracing` for this verbosity, in the words of `RUST_LOG`.
    pub fn filter(&self) -> &'static str {
        match self.verbosity {
            0..=1 => "info",
            // Decisions of roles, without what the machinery below them does.
            2..=4 => "info,bowline_roles=debug",
            5..=7 => "info,bowline_roles=debug,bowline_machinery=debug,bowline_host=debug,csi=debug",
            _ => "debug,bowline_roles=trace,bowline_machinery=trace,bowline_host=trace,csi=trace",
        }
    }
}
