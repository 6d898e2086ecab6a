//! `kube-scheduler`: places pods where their volumes can be.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::flags::{Gates, KubeArgs, LoggingArgs, Program, Syntax, files};
use bowline_machinery::role;
use bowline_machinery::serve::Checks;
use bowline_roles::scheduler::Scheduler;
use clap::Args;

use super::kube::{self, Absent, Kind};
use super::{Group, KUBERNETES, Run};

#[derive(Debug, Args)]
pub struct KubeScheduler {
    #[command(flatten)]
    shared: KubeArgs,
}

impl Run for KubeScheduler {
    const PROGRAM: Program = Program {
        name: "kube-scheduler",
        about: "Places pods where their volumes can be",
        syntax: Syntax::Cobra,
        upstream: &[files::LOGGING, files::KUBE, files::KUBE_SCHEDULER],
        defaults: &[("secure-port", "10259"), ("leader-elect-resource-name", "kube-scheduler")],
        version: Some(KUBERNETES),
    };
    const GROUP: Group = Group::ClusterComponents;

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate()?;
        self.shared.gates(&Gates::known(&[files::KUBE_GATES])?).map(drop)
    }
    async fn run(self) -> Result<ExitCode> {
        let role = |ports| role::run::<Scheduler>(ports, ());
        let kind = Kind {
            program: Self::PROGRAM.name,
            absent: Absent::Waits,
            synced: "sched-handler-sync",
            health: Checks::default(),
        };
        kube::run(kind, &self.shared, role).await
    }
}
