//! Ctrl-C and SIGTERM.

use anyhow::{Context, Result};
use bowline_host::real;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at the first Ctrl-C or SIGTERM. The second one ends the process, whatever it waits for: what it
/// leaves, the next start takes over, as after any crash.
pub fn cancel_on_signal(stop: CancellationToken) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if let Err(error) = real::end_on_next_signal() {
            tracing::warn!(%error, "a second Ctrl-C will not end this process");
        }
        stop.cancel();
    });
    Ok(())
}
