//! `csi-external-health-monitor-controller`: tells claims of volumes whose driver reports that something is wrong.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_machinery::{Role, role};
use bowline_roles::sidecars::external_health_monitor::{Flags, HealthMonitor};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

/// Upstream's lock of a driver.
pub(super) fn lock(driver: &str) -> String {
    format!("external-health-monitor-leader-{driver}")
}

#[derive(Debug, Args)]
pub struct CsiExternalHealthMonitorController {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for CsiExternalHealthMonitorController {
    const PROGRAM: Program = Program {
        name: "csi-external-health-monitor-controller",
        about: "Tells claims of volumes whose driver reports that something is wrong",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::CSI_EXTERNAL_HEALTH_MONITOR_CONTROLLER],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] =
        &["feature-gates", "retry-interval-start", "retry-interval-max"];

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate(&[])
    }
    async fn run(self) -> Result<ExitCode> {
        let Self { shared, own } = self;
        let kind = Kind {
            program: Self::PROGRAM.name,
            component: HealthMonitor::NAME,
            environment: Environment::Ignored,
            lock,
        };
        sidecar::run(kind, &shared, |ports, sidecar| role::run::<HealthMonitor>(ports, (sidecar, own))).await
    }
}
