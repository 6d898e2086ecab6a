//! Logs go to standard error; `RUST_LOG` says how much.

mod json;

use bowline_machinery::flags::{Format, LoggingArgs};
use tracing_subscriber::EnvFilter;

use crate::terminal::coloured;

/// The embedded database tells of its every step at the level at which we tell of ours.
const DATABASE: &str = "fjall=warn,lsm_tree=warn";

/// Starts logging at `level` unless `RUST_LOG` says otherwise.
pub fn start(level: &str) {
    start_as(level, Format::Text);
}

/// Starts logging as a program's flags say, unless `RUST_LOG` says otherwise.
pub fn start_program(args: &LoggingArgs) {
    start_as(args.filter(), args.logging_format);
}

fn start_as(level: &str, format: Format) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},{DATABASE}")));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start, in tests, leaves the first one in place.
    let _ = match format {
        Format::Text => logs.with_ansi(coloured(&std::io::stderr())).with_target(false).compact().try_init(),
        Format::Json => logs.with_ansi(false).event_format(json::Lines).try_init(),
    };
}
