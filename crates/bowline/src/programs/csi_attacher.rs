//! `csi-attacher`: attaches volumes to nodes: controllerpublishvolume for volumeattachments.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_machinery::{Role, role};
use bowline_roles::sidecars::external_attacher::{Attacher, Flags};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

/// Gates of upstream's program; the lease is always handed over.
pub(super) const GATES: &[&str] =
    &["MutableCSINodeAllocatableCount true fixed\nReleaseLeaderElectionOnExit true fixed"];

/// Upstream's lock of a driver.
pub(super) fn lock(driver: &str) -> String {
    format!("external-attacher-leader-{driver}")
}

#[derive(Debug, Args)]
pub struct CsiAttacher {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for CsiAttacher {
    const PROGRAM: Program = Program {
        name: "csi-attacher",
        about: "Attaches volumes to nodes: ControllerPublishVolume for VolumeAttachments",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::SIDECAR, files::CSI_ATTACHER],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] = &[];

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate(GATES)
    }
    async fn run(self) -> Result<ExitCode> {
        let Self { shared, own } = self;
        let kind = Kind {
            program: Self::PROGRAM.name,
            component: Attacher::NAME,
            environment: Environment::Ignored,
            lock,
        };
        sidecar::run(kind, &shared, |ports, sidecar| role::run::<Attacher>(ports, (sidecar, own))).await
    }
}
