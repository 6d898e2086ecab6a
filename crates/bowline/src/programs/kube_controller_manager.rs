//! `kube-controller-manager`: the controllers that a volume meets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_machinery::client::{Accounts, Environment, Line, Source};
use bowline_machinery::flags::{Gates, KubeArgs, LoggingArgs, Program, Syntax, files};
use bowline_machinery::serve::{Check, Checks};
use bowline_machinery::{Leadership, Ports, RunError};
use bowline_roles::controllers::{Controller, Settings, enabled};
use bowline_roles::controllers::{attachdetach, persistentvolume};
use bowline_roles::crew::Crew;
use clap::Args;

use super::kube::{self, Absent, Kind};
use super::{Group, KUBERNETES, Run};

#[derive(Debug, Args)]
pub struct KubeControllerManager {
    #[command(flatten)]
    shared: KubeArgs,
    /// Controllers to run: * for all, NAME for one, -NAME for all but this one
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Certificate of the API server's authority, which every namespace gets
    #[arg(long, value_name = "PATH")]
    root_ca_file: Option<PathBuf>,
    /// Let each controller act as its own service account of kube-system instead of as this program
    #[arg(long)]
    use_service_account_credentials: bool,
    #[command(flatten)]
    binder: persistentvolume::Flags,
    #[command(flatten)]
    attach_detach: attachdetach::Flags,
}

impl Run for KubeControllerManager {
    const PROGRAM: Program = Program {
        name: "kube-controller-manager",
        about: "Binds and protects volumes, attaches them, collects garbage (--controllers)",
        syntax: Syntax::Cobra,
        upstream: &[files::LOGGING, files::KUBE, files::KUBE_CONTROLLER_MANAGER],
        defaults: &[("secure-port", "10257"), ("leader-elect-resource-name", "kube-controller-manager")],
        version: Some(KUBERNETES),
    };
    const GROUP: Group = Group::ClusterComponents;
    const ADDITIONS: &'static [&'static str] = &["attach-detach-max-wait-for-unmount"];

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate()?;
        self.shared.gates(&Gates::known(&[files::KUBE_GATES])?)?;
        enabled(&self.controllers).map(drop)
    }
    async fn run(self) -> Result<ExitCode> {
        let controllers = enabled(&self.controllers).map_err(anyhow::Error::msg)?;
        let root_ca = self.root_ca_file.as_deref().map(read).transpose()?;
        let settings = Settings { binder: self.binder, attach_detach: self.attach_detach, root_ca };
        let kubeconfig = self.shared.kubeconfig.as_deref();
        let source = Source::choose(kubeconfig, &Environment::Ignored);
        let accounts = self.use_service_account_credentials.then_some(source);
        let health = Checks::default();
        // Upstream's program has no /readyz; the check has the name that its API server gives it.
        let kind = Kind {
            program: Self::PROGRAM.name,
            absent: Absent::Ends,
            synced: "informer-sync",
            health: health.clone(),
        };
        let roles = async move |ports| {
            run(with_accounts(ports, accounts).await?, controllers, settings, health).await
        };
        kube::run(kind, &self.shared, roles).await
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read --root-ca-file `{}`", path.display()))
}

/// Controllers have their own clients if `accounts` says where from.
async fn with_accounts(ports: Ports, accounts: Option<Source>) -> Result<Ports, RunError> {
    let Some(source) = accounts else { return Ok(ports) };
    let program = KubeControllerManager::PROGRAM.name;
    let line = Line::of(program, env!("CARGO_PKG_VERSION"), ports.host.random.clone());
    let accounts = Accounts::open(&source, line, ports.client.clone()).await;
    let accounts = accounts.map_err(|error| RunError::Refused(error.to_string()))?;
    Ok(ports.with_clients(Arc::new(accounts)))
}

/// As upstream's: `/healthz` has each controller from when the program leads.
async fn list_when_leading(leadership: Option<Leadership>, controllers: Vec<&'static str>, health: Checks) {
    if let Some(leadership) = leadership
        && !leadership.acquired().await
    {
        return;
    }
    for controller in controllers {
        health.add(Check::passed(controller));
    }
}

async fn run(
    ports: Ports,
    controllers: Vec<&'static Controller>,
    settings: Settings,
    health: Checks,
) -> Result<(), RunError> {
    let (crew, mut started) = (Crew::default(), Vec::new());
    for controller in controllers {
        if !controller.lacks.is_empty() {
            tracing::warn!(controller = controller.name, "{}", controller.lacks);
        }
        match controller.start(&ports, &settings) {
            Some(running) => {
                crew.run(running);
                started.push(controller.name);
            }
            None => tracing::info!(controller = controller.name, "has nothing to do with these flags"),
        }
    }
    tokio::spawn(list_when_leading(ports.leadership.clone(), started, health));
    tokio::select! {
        biased;
        failed = crew.failed() => {
            ports.stop.cancel();
            let _ = crew.finished().await;
            return Err(RunError::Refused(failed.to_string()));
        }
        () = ports.stop.cancelled() => {}
    }
    crew.finished().await.map_err(|error| RunError::Refused(error.to_string()))
}
