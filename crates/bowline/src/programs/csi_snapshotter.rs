//! `csi-snapshotter`: takes and deletes snapshots: createsnapshot and deletesnapshot for volumesnapshotcontents.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_machinery::{Role, role};
use bowline_roles::sidecars::external_snapshotter::{Flags, Snapshotter};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

/// Gates of upstream's program; the lease is always handed over.
pub(super) const GATES: &[&str] =
    &["CSIVolumeGroupSnapshot false fixed\nReleaseLeaderElectionOnExit true fixed"];

/// Upstream's lock of a driver.
pub(super) fn lock(driver: &str) -> String {
    format!("external-snapshotter-leader-{driver}")
}

#[derive(Debug, Args)]
pub struct CsiSnapshotter {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for CsiSnapshotter {
    const PROGRAM: Program = Program {
        name: "csi-snapshotter",
        about: "Takes and deletes snapshots: CreateSnapshot and DeleteSnapshot for VolumeSnapshotContents",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::SIDECAR, files::CSI_SNAPSHOTTER],
        defaults: &[("timeout", "1m")],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] = &["node-name"];

    fn logging(&self) -> &LoggingArgs {
        &self.shared.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.shared.validate(GATES)?;
        match (self.own.node_deployment, self.shared.election.leader_election) {
            (true, true) => Err("--node-deployment works on one node's snapshots and shares them with no other process: leave out --leader-election".into()),
            (true, false) if self.own.node_name.is_empty() => {
                Err("--node-deployment needs the node's name in the environment variable NODE_NAME".into())
            }
            _ => Ok(()),
        }
    }
    async fn run(self) -> Result<ExitCode> {
        let Self { shared, own } = self;
        let kind = Kind {
            program: Self::PROGRAM.name,
            component: Snapshotter::NAME,
            environment: Environment::Ignored,
            lock,
        };
        sidecar::run(kind, &shared, |ports, sidecar| role::run::<Snapshotter>(ports, (sidecar, own))).await
    }
}
