//! A kubelet as a child process: started again when it ends, asked to leave its machine clean at the end.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Disk;
use bowline_host::real;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a child may take to end its containers and unmount their volumes; it gives up a little earlier itself.
const DRAIN: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After a child that ran for this long, the pause is short again.
const RESET: Duration = Duration::from_secs(120);
const MARK_MODE: u32 = 0o600;
/// How long a log may get, and how often that is looked at while the child runs.
const LOG_MAX: u64 = 16 << 20;
const LOG_LOOK: Duration = Duration::from_secs(60);

/// How to start it.
pub struct Kubelet {
    pub name: String,
    pub program: PathBuf,
    pub words: Vec<OsString>,
    pub log: PathBuf,
    /// Stands there while the node has no containers and no volumes.
    pub clean_mark: PathBuf,
    pub disk: Arc<dyn Disk>,
}

impl Kubelet {
    /// Keeps it running until `stop`, and then leaves its node clean. False if something of it may be left. One that ends by
    /// itself concerns its node only.
    pub async fn keep(self, stop: CancellationToken) -> bool {
        let mut pause = None;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let after = |last| pause_after(last, begun.elapsed());
            match self.spawn(&[]).await {
                Ok(mut child) => {
                    // Waiting for a child would close it.
                    let leash = child.stdin.take();
                    let ended = tokio::select! {
                        biased;
                        () = stop.cancelled() => return self.end_or_drain(child, leash).await,
                        ended = child.wait() => ended,
                        never = self.bound_log() => match never {},
                    };
                    let status = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                    let (log, pause) = (self.log.display(), pause.insert(after(pause)));
                    tracing::warn!(node = self.name, status, %log, ?pause, "the kubelet ended, starting it again");
                }
                Err(error) => {
                    let pause = pause.insert(after(pause));
                    tracing::warn!(node = self.name, %error, ?pause, "cannot start the kubelet, trying again");
                }
            }
            let _ = stop.run_until_cancelled(tokio::time::sleep(pause.unwrap_or(PAUSE))).await;
        }
        // The kubelet ended before it was asked to, and its containers did not.
        self.drain().await
    }

    /// Keeps the log of a child that runs for months from filling the disk.
    async fn bound_log(&self) -> Infallible {
        loop {
            let log = self.log.clone();
            let bounded = tokio::task::spawn_blocking(move || real::bound_log(&log, LOG_MAX)).await;
            if let Ok(Err(error)) = bounded {
                tracing::warn!(node = self.name, log = %self.log.display(), %error, "cannot shorten the log");
            }
            tokio::time::sleep(LOG_LOOK).await;
        }
    }

    /// A child that dies while it ends its containers is followed by another one, if there is time.
    async fn end_or_drain(&self, child: Child, leash: Option<ChildStdin>) -> bool {
        let begun = Instant::now();
        self.end(child, leash).await || (begun.elapsed() < DRAIN / 2 && self.drain().await)
    }

    /// Ends the containers of a node that is no longer run and unmounts their volumes, as often as it takes. False if
    /// something of it may be left at `stop`.
    pub async fn clear(self, stop: CancellationToken) -> bool {
        let mut pause = None;
        loop {
            if self.drain().await {
                return true;
            }
            if stop.is_cancelled() {
                return false;
            }
            let pause = *pause.insert(pause_after(pause, Duration::ZERO));
            let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    /// Starts it only to end its containers and to unmount their volumes.
    async fn drain(&self) -> bool {
        match self.spawn(&["--drain-at-once=true"]).await {
            Ok(mut child) => {
                // Its end would tell the child that this process has died.
                let _leash = child.stdin.take();
                self.ended(child).await
            }
            Err(error) => {
                tracing::warn!(node = self.name, %error, "cannot start the kubelet to end its containers");
                false
            }
        }
    }

    async fn spawn(&self, also: &[&str]) -> io::Result<Child> {
        let log = real::private_log(&self.log)?;
        // From here on it may have containers.
        self.disk.remove_file(&self.clean_mark).await?;
        Command::new(&self.program)
            .arg("kubelet")
            .args(&self.words)
            .args(also)
            // Its end tells the child that this process has died.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process, which then asks the children.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Asks a child to end its containers and to unmount their volumes. False if something may be left.
    async fn end(&self, child: Child, leash: Option<ChildStdin>) -> bool {
        if let Some(mut stdin) = leash {
            // One that has ended already was asked by a signal.
            let _ = stdin.write_all(crate::programs::DRAIN_WORD.as_bytes()).await;
        }
        self.ended(child).await
    }

    /// Waits for a child that leaves its node clean. False if something may be left.
    async fn ended(&self, mut child: Child) -> bool {
        match tokio::time::timeout(DRAIN, child.wait()).await {
            Ok(Ok(status)) if status.success() => {
                let marked = self.disk.write_atomic(&self.clean_mark, b"", MARK_MODE).await;
                if let Err(error) = marked {
                    tracing::warn!(node = self.name, %error, "the next start looks for its containers again");
                }
                true
            }
            Ok(status) => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                let log = self.log.display();
                tracing::warn!(node = self.name, status, %log, "the kubelet did not leave its node clean");
                false
            }
            Err(_) => {
                tracing::warn!(node = self.name, "the kubelet does not end; killing it");
                let _ = child.kill().await;
                false
            }
        }
    }
}

/// How long to wait before the next start: longer each time, and short again after a child that ran for a while.
fn pause_after(last: Option<Duration>, ran: Duration) -> Duration {
    match last {
        Some(last) if ran < RESET => (last * 2).min(PAUSE_MAX),
        _ => PAUSE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_short_again_after_a_child_that_ran_for_a_while() {
        let seconds = Duration::from_secs;
        let table = [
            (None, seconds(0), seconds(1)),
            (Some(seconds(1)), seconds(5), seconds(2)),
            (Some(seconds(16)), seconds(119), seconds(30)),
            (Some(seconds(30)), seconds(0), seconds(30)),
            (Some(seconds(30)), seconds(120), seconds(1)),
        ];
        for (last, ran, next) in table {
            assert_eq!(pause_after(last, ran), next, "{last:?} {ran:?}");
        }
    }
}
