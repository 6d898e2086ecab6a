//! Ctrl-C and SIGTERM.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at the first Ctrl-C or SIGTERM.
pub fn cancel_on_signal(stop: CancellationToken) -> Result<()> {
    cancel_on_signals(stop, CancellationToken::new())
}

/// Cancels `stop` at the first Ctrl-C or SIGTERM, and `insisted` at the second.
pub fn cancel_on_signals(stop: CancellationToken, insisted: CancellationToken) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::spawn(async move {
        for token in [stop, insisted] {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(())
}
