//! `csi-resizer`: enlarges volumes and changes their attributes class: controllerexpandvolume, controllermodifyvolume.

use std::process::ExitCode;

use anyhow::Result;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{Gates, LoggingArgs, Program, SidecarArgs, Syntax, files};
use bowline_roles::sidecars::external_resizer::{self, Flags};
use clap::Args;

use super::sidecar::{self, Kind};
use super::{Group, Run, VERSION};

const VOLUME_ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";
/// Gates of upstream's program; the lease is always handed over.
pub(super) const GATES: &[&str] = &[
    "RecoverVolumeExpansionFailure true fixed\nVolumeAttributesClass true switch\nAnnotateFsResize false fixed\nReleaseLeaderElectionOnExit true fixed",
];

/// Upstream's lock of a driver.
pub(super) fn lock(driver: &str) -> String {
    format!("external-resizer-{driver}")
}

/// What of the gates the controllers look at.
pub(super) fn switched(gates: &Gates) -> external_resizer::Gates {
    external_resizer::Gates { volume_attributes_class: gates.enabled(VOLUME_ATTRIBUTES_CLASS) }
}

#[derive(Debug, Args)]
pub struct CsiResizer {
    #[command(flatten)]
    shared: SidecarArgs,
    #[command(flatten)]
    own: Flags,
}

impl Run for CsiResizer {
    const PROGRAM: Program = Program {
        name: "csi-resizer",
        about: "Enlarges and modifies volumes: ControllerExpandVolume and ControllerModifyVolume for claims",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::SIDECAR, files::CSI_RESIZER],
        defaults: &[("timeout", "10s")],
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
        let known = Gates::known(GATES).map_err(anyhow::Error::msg)?;
        let gates = Gates::parse(&known, &shared.feature_gates).map_err(anyhow::Error::msg)?;
        let gates = switched(&gates);
        let kind = Kind {
            program: Self::PROGRAM.name,
            component: external_resizer::NAME,
            environment: Environment::Ignored,
            lock,
        };
        sidecar::run(kind, &shared, |ports, sidecar| external_resizer::run(ports, sidecar, own, gates)).await
    }
}
