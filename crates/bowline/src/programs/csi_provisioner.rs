//! `csi-provisioner`: makes and deletes volumes: createvolume for claims, deletevolume for released volumes.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_machinery::{Role, role};
use bowline_roles::sidecars::external_provisioner::{Flags, Provisioner};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

/// Gates of upstream's program; the lease is always handed over.
const GATES: &[&str] = &[
    "Topology true fixed\nReleaseLeaderElectionOnExit true fixed\nCrossNamespaceVolumeDataSource false fixed\nVolumeAttributesClass true fixed\nCSINodeExpandSecret true fixed\nHonorPVReclaimPolicy true fixed",
];

#[derive(Debug, Args)]
pub struct CsiProvisioner {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for CsiProvisioner {
    const PROGRAM: Program = Program {
        name: "csi-provisioner",
        about: "Makes and deletes volumes: CreateVolume for claims, DeleteVolume for released volumes",
        syntax: Syntax::Pflag,
        upstream: &[files::LOGGING, files::SIDECAR, files::CSI_PROVISIONER],
        defaults: &[("timeout", "10s")],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] = &["hostname"];

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
            component: Provisioner::NAME,
            environment: Environment::Kubeconfig(std::env::var_os("KUBECONFIG")),
            lock: |driver| driver.to_owned(),
        };
        sidecar::run(kind, &shared, |ports, sidecar| role::run::<Provisioner>(ports, (sidecar, own))).await
    }
}
