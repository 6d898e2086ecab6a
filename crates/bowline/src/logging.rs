//! Logs go to standard error; `RUST_LOG` says how much.

use tracing_subscriber::EnvFilter;

/// Starts logging at `level` unless `RUST_LOG` says otherwise.
pub fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .compact()
        .try_init();
}
