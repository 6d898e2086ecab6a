//! `csi-provisioner`: makes and deletes volumes: createvolume for claims, deletevolume for released volumes.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_machinery::{Ports, Role, RunError, Sidecar, role};
use bowline_roles::sidecars::external_provisioner::capacity::CapacityPublisher;
use bowline_roles::sidecars::external_provisioner::{Flags, Provisioner, capacity};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

/// Gates of upstream's program; the lease is always handed over.
pub(super) const GATES: &[&str] = &[
    "Topology true fixed\nReleaseLeaderElectionOnExit true fixed\nCrossNamespaceVolumeDataSource false fixed\nVolumeAttributesClass true fixed\nCSINodeExpandSecret true fixed\nHonorPVReclaimPolicy true fixed",
];

/// Upstream's lock of a driver.
pub(super) fn lock(driver: &str) -> String {
    driver.to_owned()
}

/// Flags that only this program has.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Own {
    #[command(flatten)]
    own: Flags,
    #[command(flatten)]
    capacity: capacity::Flags,
}

/// Both controllers of the program.
pub(super) async fn work(ports: Ports, sidecar: Sidecar, flags: Own) -> Result<(), RunError> {
    let Own { own, capacity } = flags;
    let environment = capacity::Environment {
        namespace: std::env::var("NAMESPACE").ok(),
        pod: std::env::var("POD_NAME").ok(),
        node: own.node_deployment.then(|| own.node_name.clone()).flatten(),
    };
    let provisioner = role::run::<Provisioner>(ports.clone(), (sidecar.clone(), own));
    if !capacity.enable_capacity {
        return provisioner.await;
    }
    let published = role::run::<CapacityPublisher>(ports, (sidecar, capacity, environment));
    tokio::try_join!(provisioner, published).map(drop)
}

#[derive(Debug, Args)]
pub struct CsiProvisioner {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Own,
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
    const ADDITIONS: &'static [&'static str] = &["hostname", "node-name"];

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
            lock,
        };
        sidecar::run(kind, &shared, |ports, sidecar| work(ports, sidecar, own)).await
    }
}
