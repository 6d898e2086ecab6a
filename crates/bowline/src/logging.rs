//! Logs go to standard error; `RUST_LOG` says how much.

use tracing_subscriber::EnvFilter;

use crate::terminal::coloured;

/// The embedded database tells of its every step at the level at which we tell of ours.
const DATABASE: &str = "fjall=warn,lsm_tree=warn";

/// Starts logging at `level` unless `RUST_LOG` says otherwise.
pub fn start(level: &str) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},{DATABASE}")));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(coloured(&std::io::stderr()))
        .with_target(false)
        .compact()
        .try_init();
}
