//! A kubelet as a child process: started again when it ends, asked to leave its machine clean at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

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

/// How to start it.
pub struct Kubelet {
    pub name: String,
    pub program: PathBuf,
    pub words: Vec<OsString>,
    pub log: PathBuf,
}

impl Kubelet {
    /// Keeps it running until `stop`. One that ends by itself concerns its node only.
    pub async fn keep(self, stop: CancellationToken) {
        let mut pause = None;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let after = |last| pause_after(last, begun.elapsed());
            match self.spawn() {
                Ok(mut child) => {
                    // Waiting for a child would close it.
                    let leash = child.stdin.take();
                    let ended = tokio::select! {
                        biased;
                        () = stop.cancelled() => return self.end(child, leash).await,
                        ended = child.wait() => ended,
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
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let log = real::private_log(&self.log)?;
        Command::new(&self.program)
            .arg("kubelet")
            .args(&self.words)
            // Its end tells the child that this process has died.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process, which then asks the children.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    async fn end(&self, mut child: Child, leash: Option<ChildStdin>) {
        if let Some(mut stdin) = leash {
            // A child that has died already is what is wanted.
            let _ = stdin.write_all(crate::programs::DRAIN_WORD.as_bytes()).await;
        }
        match tokio::time::timeout(DRAIN, child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(status) => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::warn!(node = self.name, status, "the kubelet did not leave its machine clean");
            }
            Err(_) => {
                tracing::warn!(node = self.name, "the kubelet does not end; killing it");
                let _ = child.kill().await;
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
