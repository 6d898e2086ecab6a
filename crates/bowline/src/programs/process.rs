//! What every program does around its roles: signals, the client, health and metrics, the lease, the exit code.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use bowline_apiserver::auth::holder;
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use bowline_machinery::client::{self, Client, Environment, Line, Source};
use bowline_machinery::flags::LeaderElection;
use bowline_machinery::lease::{Ended, Settings, Timing};
use bowline_machinery::serve::User;
use bowline_machinery::{Journal, Leadership, Lease, Metrics, Ports, RunError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::up::signal::cancel_on_signal;

/// Programs without containers keep nothing; the directory is never made.
const NO_STATE: &str = "/nonexistent";

/// The process around the roles.
pub(super) struct Process {
    pub(super) host: Host,
    /// Cancelled by SIGTERM or Ctrl-C.
    pub(super) stop: CancellationToken,
    /// Cancelled when all work has ended: only then is the lease handed over.
    over: CancellationToken,
    candidacy: Option<JoinHandle<Ended>>,
    pub(super) leadership: Arc<OnceLock<Leadership>>,
}

impl Process {
    pub(super) fn begin() -> Result<Self> {
        let host = real::host(RealConfig::new(NO_STATE)).context("prepare to reach this machine")?;
        let stop = CancellationToken::new();
        cancel_on_signal(stop.clone())?;
        let over = CancellationToken::new();
        Ok(Self { host, stop, over, candidacy: None, leadership: Arc::default() })
    }

    /// Cancelled when the work is to end; SIGTERM only asks for it.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// The API server that the flags or the pod say. Nothing is asked of it yet.
    pub(super) async fn connect(
        &self,
        program: &str,
        kubeconfig: Option<&Path>,
        environment: &Environment,
    ) -> Result<Ports> {
        let line = Line::of(program, env!("CARGO_PKG_VERSION"), self.host.random.clone());
        let source = Source::choose(kubeconfig, environment);
        let client = client::connect(&source, line, self.host.disk.clone()).await?;
        // Work that is finished after SIGTERM still sees what changes and tells of what it did.
        let ports = Ports::new(client, self.host.clone(), Journal::default(), self.over.clone());
        Ok(ports.until(self.stop.clone()))
    }

    /// With a lease, no effect begins before it is held or after it is lost.
    pub(super) fn lead(
        &mut self,
        ports: Ports,
        election: LeaderElection,
        name: String,
        namespace: String,
        identity: String,
    ) -> Result<Ports> {
        let LeaderElection { lease_duration, renew_deadline, retry_period, labels, .. } = election;
        let timing = Timing::new(lease_duration, renew_deadline, retry_period).map_err(anyhow::Error::msg)?;
        let settings = Settings { namespace, name, identity, labels, timing, release_on_exit: true };
        let (lease, leadership) = Lease::new(ports.client.clone(), self.host.clone(), settings);
        let _ = self.leadership.set(leadership.clone());
        show_leadership(&ports.metrics, leadership.clone());
        self.candidacy = Some(tokio::spawn(lease.after_roles(ports.starts.clone()).run(self.over.clone())));
        Ok(ports.led_by(leadership))
    }

    /// Hands the lease over after all work has ended. A role that ended early is an error, as upstream's exit code says.
    pub(super) async fn end(self, ended: Result<(), RunError>) -> Result<ExitCode> {
        self.over.cancel();
        if let Some(candidacy) = self.candidacy {
            // It was aborted or panicked: then the lease runs out by itself.
            let _ = candidacy.await;
        }
        ended?;
        Ok(ExitCode::SUCCESS)
    }
}

/// One line for a person who starts a program and wants to know why nothing happens. Runs beside the work, which waits for long.
pub(super) async fn tell_unreached(client: Client) {
    if let Err(error) = client::check(&client).await {
        tracing::warn!(%error, "waiting for the API server");
    }
}

/// The user that a certificate names, which TLS has verified.
pub(super) fn certificate_user(certificate: &[u8]) -> Option<User> {
    let user = Arc::unwrap_or_clone(holder(certificate)?.user);
    Some(User { name: user.name, uid: user.uid, groups: user.groups, extra: user.extra })
}

/// Shows a lease in the metrics.
pub(super) fn show_leadership(metrics: &Metrics, leadership: Leadership) {
    metrics.on_scrape(move |metrics| {
        metrics.leading(leadership.name(), leadership.held());
        metrics.slow_renewals(leadership.name(), leadership.slow_paths());
    });
}
