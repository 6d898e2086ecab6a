//! `snapshot-controller`: gives each volumesnapshot its content; one per cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_host::real;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{ElectionArgs, EndpointArgs, Gates, LoggingArgs, Program, Syntax, files};
use bowline_machinery::lease::settings::sanitize;
use bowline_machinery::role;
use bowline_roles::sidecars::snapshot_controller::{Flags, SnapshotController as Controller};
use clap::{ArgAction, Args};

use super::process::{Process, tell_unreached};
use super::sidecar::{namespace, serve};
use super::{Group, Run, VERSION};

/// Gates of upstream's program; the lease is always handed over.
const GATES: &[&str] = &["CSIVolumeGroupSnapshot false fixed\nReleaseLeaderElectionOnExit true fixed"];
const LOCK: &str = "snapshot-controller-leader";

#[derive(Debug, Args)]
pub struct SnapshotController {
    /// Kubeconfig file; without one the pod's service account is used
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Feature gates, as Name=true
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    feature_gates: Vec<String>,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    logging: LoggingArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for SnapshotController {
    const PROGRAM: Program = Program {
        name: "snapshot-controller",
        about: "Gives each VolumeSnapshot its content; one per cluster",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::SNAPSHOT_CONTROLLER],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] = &["leader-election-labels", "metrics-address"];

    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.endpoint.address()?;
        Gates::parse(&Gates::known(GATES)?, &self.feature_gates)?;
        self.election.leader_election().map(drop)
    }
    async fn run(self) -> Result<ExitCode> {
        let mut process = Process::begin()?;
        let name = Self::PROGRAM.name;
        let ports = process.connect(name, self.kubeconfig.as_deref(), &Environment::Ignored).await?;
        serve(&process, &ports, &self.endpoint, |pages| pages).await?;
        tokio::spawn(tell_unreached(ports.client.clone()));
        let ports = match self.election.leader_election().map_err(anyhow::Error::msg)? {
            None => ports,
            Some(election) => {
                let namespace = namespace(&ports, self.election.leader_election_namespace.as_deref()).await;
                let machine = real::hostname().context("read the name of this machine")?;
                let identity = sanitize(&format!("{machine}-{}", process.host.random.uuid()));
                process.lead(ports, election, LOCK.to_owned(), namespace, identity)?
            }
        };
        let ended = role::run::<Controller>(ports, self.own).await;
        process.end(ended).await
    }
}
