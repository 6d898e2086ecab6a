//! `bowline demo`: one claim's journey, on this machine's kernel, from nothing to nothing.

mod leftovers;
mod narrate;
mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::terminal::Terminal;
use crate::up::{Config, Running};
use bowline_machinery::journal::Entry;
use leftovers::Leftovers;
use narrate::Narrator;

/// Every wait of the demo ends by then: something is wrong on a machine that needs longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watch one claim become a mounted filesystem in a running container, then clean up
#[derive(clap::Args)]
pub struct Demo {
    /// Filesystem of the volume
    #[arg(long, value_name = "TYPE", default_value = "ext4")]
    fs_type: String,
}

impl Demo {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("error");
        let terminal = Terminal::default();
        let scratch =
            tempfile::Builder::new().prefix("bowline-demo-").tempdir().context("make a scratch directory")?;
        let config = Config::scratch(scratch.path());
        terminal.line(terminal.bold("One claim's journey through every component, on this machine's kernel"));
        terminal.line("");
        let started = Instant::now();
        let running = Running::start(config).await?;
        terminal.line(format!(
            "API server, controllers, scheduler, sidecars, kubelet and CSI driver are up in {} ms, in one process",
            started.elapsed().as_millis()
        ));
        let outcome = self.journey(&terminal, &running).await;
        let stopped = running.stop().await;
        outcome?;
        stopped?;
        farewell(&terminal);
        Ok(ExitCode::SUCCESS)
    }

    async fn journey(&self, terminal: &Terminal, running: &Running) -> Result<()> {
        let narrator = Narrator::start();
        let mut entries = running.ports.journal.listen();
        let steps = steps::Steps::new(running, &self.fs_type);

        heading(terminal, "kubectl apply: a class, a claim, a pod");
        narrate_while(terminal, &narrator, &mut entries, steps.apply()).await?;
        let written = steps.read_back().await?;
        terminal.line("");
        written.iter().for_each(|line| terminal.line(terminal.good(line)));

        heading(terminal, "kubectl delete: the pod, the claim, the class");
        narrate_while(terminal, &narrator, &mut entries, steps.delete()).await?;

        let left = Leftovers::look(running).await?;
        terminal.line("");
        left.lines().iter().for_each(|line| terminal.line(line));
        if left.any() {
            bail!("something is left behind: see above");
        }
        terminal.line(terminal.good("nothing is left"));
        Ok(())
    }
}

fn heading(terminal: &Terminal, text: &str) {
    terminal.line("");
    terminal.line(terminal.bold(text));
    terminal.line(terminal.dim(&format!("{:>9}  {:<22}  step", "time", "component")));
}

/// Prints the journal while `work` goes on, and what is still in it when the work is done.
async fn narrate_while(
    terminal: &Terminal,
    narrator: &Narrator,
    entries: &mut UnboundedReceiver<Entry>,
    work: impl Future<Output = Result<()>>,
) -> Result<()> {
    let mut work = std::pin::pin!(tokio::time::timeout(PATIENCE, work));
    let outcome = loop {
        tokio::select! {
            biased;
            Some(entry) = entries.recv() => narrator.tell(terminal, &entry),
            outcome = &mut work => break outcome,
        }
    };
    while let Ok(entry) = entries.try_recv() {
        narrator.tell(terminal, &entry);
    }
    outcome.context("the journey did not end within a minute; RUST_LOG=debug shows what it waits for")?
}

fn farewell(terminal: &Terminal) {
    terminal.line("");
    terminal.line(terminal.bold("Try next"));
    for line in [
        "bowline up --data-dir /var/lib/bowline      # keep it running (as root), then in another shell:",
        "export KUBECONFIG=/var/lib/bowline/kubeconfig",
        "kubectl apply -f examples/pod-with-volume.yaml",
        "kubectl get pod,pvc,pv,volumeattachment",
        "kubectl describe pvc data",
    ] {
        terminal.line(format!("  {line}"));
    }
}
