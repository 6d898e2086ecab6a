//! `bowline sidecars`: the controllers of one driver in one process, any subset of them.
//!
//! They share caches, the connection to the driver, the election and the port for metrics and health. See
//! docs/sidecars.md for flags and leases.

mod args;
mod election;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod top;

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::Ports;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, Syntax, files};
use bowline_machinery::serve::{Answer, Pages};
use bowline_roles::rights::{self, Right};
use bowline_roles::sidecars::livenessprobe;
use serde_json::json;

use super::process::{Process, tell_unreached};
use super::{Group, Run, VERSION, sidecar};
pub use args::SidecarsArgs;
use election::Election;
use run::COMPONENT;
pub use top::Top;

impl Run for SidecarsArgs {
    const PROGRAM: Program = Program {
        name: "sidecars",
        about: "Runs any of the controllers of a driver in one process, with upstream's leases",
        syntax: Syntax::GoFlag,
        upstream: &[
            files::LOGGING,
            files::SIDECAR,
            files::CSI_PROVISIONER,
            files::CSI_ATTACHER,
            files::CSI_RESIZER,
            files::CSI_SNAPSHOTTER,
            files::CSI_EXTERNAL_HEALTH_MONITOR_CONTROLLER,
            files::SIDECARS,
        ],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;

    fn additions() -> Vec<&'static str> {
        args::additions()
    }
    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        SidecarsArgs::validate(self)
    }
    async fn run(self) -> Result<ExitCode> {
        let process = Process::begin()?;
        let shared = &self.shared;
        let ports = process.connect(COMPONENT, shared.kubeconfig.as_deref(), &Environment::Ignored).await?;
        sidecar::serve(&process, &ports, &shared.endpoint, |pages| self.pages(&ports, pages)).await?;
        tokio::spawn(tell_unreached(ports.client.clone()));
        let ended = self.work(&process, &ports).await;
        let over = process.end(Ok(())).await;
        ended.and(over)
    }
}

/// What these controllers ask of the API server, and in the namespace of their leases; `*` are all.
pub fn rights(names: &[String]) -> Result<(Vec<Right>, Vec<Right>), String> {
    let known = args::known();
    if let Some(name) = names.iter().find(|name| *name != "*" && !known.contains(&name.as_str())) {
        return Err(format!("`{name}` is none of {}", known.join(", ")));
    }
    let enabled = |one: &&table::Controller| names.iter().any(|name| name == "*" || name == one.name);
    let enabled: Vec<&table::Controller> = table::CONTROLLERS.iter().filter(enabled).collect();
    let cluster = enabled.iter().flat_map(|one| rights::each(one.rights)).collect();
    let own = enabled.iter().flat_map(|one| one.in_namespace).flat_map(|table| rights::each(table));
    Ok((cluster, own.collect()))
}

impl SidecarsArgs {
    /// The pages of this program beside metrics and the election.
    fn pages(&self, ports: &Ports, pages: Pages) -> Pages {
        ports.backlog.measure(&ports.metrics);
        let backlog = ports.backlog.clone();
        let pages = pages.page("/debug/queue", move || {
            std::future::ready(Answer::json(&json!({"operations": backlog.now()})))
        });
        let Some(probe_timeout) = self.probe else { return pages };
        let csi_address = self.shared.csi_address.clone();
        let flags = livenessprobe::Flags { csi_address, probe_timeout };
        let effects = ports.questions(livenessprobe::NAME).measured(&ports.metrics, "");
        let host = ports.host.clone();
        pages.page("/healthz", move || livenessprobe::health(host.clone(), flags.clone(), effects.clone()))
    }

    async fn work(&self, process: &Process, ports: &Ports) -> Result<()> {
        if self.enabled.is_empty() {
            process.stop.cancelled().await;
            return Ok(());
        }
        let driver = tokio::select! {
            biased;
            () = process.stop.cancelled() => return Ok(()),
            driver = sidecar::driver(ports, COMPONENT, &self.shared) => driver?,
        };
        let election = &self.shared.election;
        let namespace = sidecar::namespace(ports, election.leader_election_namespace.as_deref()).await;
        let driver = driver.in_namespace(sidecar::own_namespace(&namespace));
        let election = match election.leader_election().map_err(anyhow::Error::msg)? {
            None => None,
            Some(election) => Some(Election::begin(ports, election, namespace, &driver.identity.name)?),
        };
        if let Some(election) = &election {
            let _ = process.leadership.set(election.main());
        }
        let ended = run::controllers(ports, self, driver, election.as_ref()).await;
        if let Some(election) = &election {
            election.end().await;
        }
        ended
    }
}
