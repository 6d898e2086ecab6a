//! Programs under upstream's names: `bowline csi-attacher …`, or a link of that name to this binary.
//!
//! Each reads its command line as upstream's does and is one line of [`PROGRAMS`]; the rest of `bowline` is clap's.

mod csi_attacher;
mod csi_external_health_monitor_controller;
mod csi_node_driver_registrar;
mod csi_provisioner;
mod csi_resizer;
mod csi_snapshotter;
mod dispatch;
pub mod help;
mod kube;
mod kube_controller_manager;
mod kube_scheduler;
mod kubelet;
mod livenessprobe;
mod node_sidecars;
mod process;
mod sidecar;
mod sidecars;
mod snapshot_controller;
mod start;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Result;
use bowline_apiserver::GIT_VERSION;
use bowline_machinery::flags::{LoggingArgs, Program, Stop, Version, command, mismatches};

pub use dispatch::{Chosen, choose, run};
pub use sidecars::rights as sidecar_rights;
pub use start::Ready;

/// What a parent says on a kubelet's standard input when it is to leave its machine clean.
pub const DRAIN_WORD: &str = "drain";

/// What `--version` of a sidecar prints.
const VERSION: Version = Version::Own(concat!("v", env!("CARGO_PKG_VERSION")));
/// What `--version` of the other programs prints: what the API server and a node's status say.
const KUBERNETES: Version = Version::Kubernetes(GIT_VERSION);

/// Where `bowline --help` lists a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    ClusterComponents,
    Sidecars,
}

/// A program: its arguments, and what it does with them.
pub trait Run: clap::Args + Send + 'static {
    const PROGRAM: Program;
    const GROUP: Group;
    /// Flags that upstream does not have.
    const ADDITIONS: &'static [&'static str] = &[];

    /// The same, where they depend on what else the program is made of.
    fn additions() -> Vec<&'static str> {
        Self::ADDITIONS.to_vec()
    }
    /// The command line with what a file that it names adds to it.
    fn expand(words: &[String]) -> Result<Vec<String>, String> {
        Ok(words.to_vec())
    }
    fn logging(&self) -> &LoggingArgs;
    /// What no single flag can say about itself.
    fn validate(&self) -> Result<(), String>;
    /// Runs to the end; an error is one line and exit code 1.
    fn run(self) -> impl Future<Output = Result<ExitCode>> + Send;
}

/// A line of the table.
pub struct Entry {
    pub program: Program,
    pub group: Group,
    start: fn(&str, &[String]) -> Result<Ready, Stop>,
    mismatches: fn() -> Result<Vec<String>, String>,
}

impl Entry {
    pub const fn of<P: Run>() -> Self {
        let mismatches = || mismatches(&command::<P>(&P::PROGRAM), P::PROGRAM.upstream, &P::additions());
        Self { program: P::PROGRAM, group: P::GROUP, start: start::start::<P>, mismatches }
    }

    /// Where the program's flags and upstream's list disagree.
    pub fn mismatches(&self) -> Result<Vec<String>, String> {
        (self.mismatches)()
    }
}

/// Every program that this binary is.
pub const PROGRAMS: &[Entry] = &[
    Entry::of::<kube_controller_manager::KubeControllerManager>(),
    Entry::of::<kube_scheduler::KubeScheduler>(),
    Entry::of::<kubelet::Kubelet>(),
    Entry::of::<csi_provisioner::CsiProvisioner>(),
    Entry::of::<csi_attacher::CsiAttacher>(),
    Entry::of::<csi_resizer::CsiResizer>(),
    Entry::of::<csi_snapshotter::CsiSnapshotter>(),
    Entry::of::<snapshot_controller::SnapshotController>(),
    Entry::of::<csi_external_health_monitor_controller::CsiExternalHealthMonitorController>(),
    Entry::of::<csi_node_driver_registrar::CsiNodeDriverRegistrar>(),
    Entry::of::<livenessprobe::Livenessprobe>(),
    Entry::of::<sidecars::SidecarsArgs>(),
    Entry::of::<sidecars::Top>(),
    Entry::of::<node_sidecars::NodeSidecars>(),
];
