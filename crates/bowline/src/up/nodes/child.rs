//! A kubelet as a child process: started again when it ends, asked to leave its machine clean at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bowline_host::real;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

/// How long a child may take to end its containers and unmount their volumes; it gives up a little earlier itself.
const DRAIN: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

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
        let mut pause = PAUSE;
        while !stop.is_cancelled() {
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
                    let log = self.log.display();
                    tracing::warn!(node = self.name, status, %log, ?pause, "the kubelet ended, starting it again");
                }
                Err(error) => {
                    tracing::warn!(node = self.name, %error, ?pause, "cannot start the kubelet, trying again");
                }
            }
            let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
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
