//! Standard input as a leash: its end tells that the parent has ended or wants this process to.

use std::io::Read;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

/// Reads to the end on a thread of its own, which does not keep the process from ending.
pub(super) fn until_end() -> Result<oneshot::Receiver<String>> {
    let (sender, receiver) = oneshot::channel();
    let read = move || {
        let mut text = String::new();
        // What cannot be read says nothing more than that it has ended.
        let _ = std::io::stdin().lock().take(1024).read_to_string(&mut text);
        let _ = sender.send(text);
    };
    std::thread::Builder::new().name("stdin".into()).spawn(read).context("read standard input")?;
    Ok(receiver)
}

/// What was said before the end; never comes without a leash.
pub(super) async fn said(told: Option<oneshot::Receiver<String>>) -> String {
    match told {
        Some(told) => told.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}
