//! The controllers that one process can run for a driver: one row each.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use bowline_machinery::flags::{Gates, duration};
use bowline_machinery::{Ports, Role, RunError, Sidecar, role};
use bowline_roles::rights::{self, Rights};
use bowline_roles::sidecars::external_attacher::{self, Attacher};
use bowline_roles::sidecars::external_health_monitor::{self, HealthMonitor};
use bowline_roles::sidecars::external_provisioner::Provisioner;
use bowline_roles::sidecars::external_resizer;
use bowline_roles::sidecars::external_snapshotter::{self, Snapshotter};
use clap::{Arg, Args, Command};

use super::super::csi_attacher::{self, CsiAttacher};
use super::super::csi_external_health_monitor_controller::{self, CsiExternalHealthMonitorController};
use super::super::csi_provisioner::{self, CsiProvisioner};
use super::super::csi_resizer::{self, CsiResizer};
use super::super::csi_snapshotter::{self, CsiSnapshotter};
use super::super::{Run, sidecar};

/// A controller at work.
pub type Running = Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>>;

/// Starts a controller with its own flags and its feature gates.
type Start = fn(Ports, Sidecar, &[String], &Gates) -> Result<Running, RunError>;

/// One controller.
pub struct Controller {
    /// In `--controllers`, and before flags that another controller has, too.
    pub name: &'static str,
    /// In the journal and in logs.
    pub component: &'static str,
    /// Upstream's lock of a driver.
    pub lock: fn(&str) -> String,
    /// Feature gates that its program knows.
    pub gates: &'static [&'static str],
    /// What it asks of the API server, and in the namespace of its lease.
    pub rights: Rights,
    pub in_namespace: &'static [Rights],
    /// Defaults that its program has for shared flags.
    defaults: &'static [(&'static str, &'static str)],
    /// An API without which it has nothing to do, as a path; installed by people, maybe later.
    pub needs: Option<&'static str>,
    declare: fn(Command) -> Command,
    pub start: Start,
}

impl Controller {
    /// Longest time for one CSI call, unless flags say otherwise.
    pub fn timeout(&self) -> Option<Duration> {
        let own = self.defaults.iter().find(|(flag, _)| *flag == "timeout");
        own.and_then(|(_, value)| duration(value).ok())
    }

    /// Its own flags as its program declares them.
    pub fn arguments(&self) -> Vec<Arg> {
        let command = (self.declare)(Command::new(self.name).disable_help_flag(true));
        command.get_arguments().filter(|argument| argument.get_long().is_some()).cloned().collect()
    }
}

/// Flags as the controller's own program reads them.
fn flags<F: clap::Args>(words: &[String]) -> Result<F, RunError> {
    bowline_roles::flags(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Answers the kubelet's probe of the driver; it asks nothing of the API server and needs no lease.
pub const LIVENESSPROBE: &str = "livenessprobe";

/// Every controller, in the order of a volume's journey.
pub static CONTROLLERS: &[Controller] = &[
    Controller {
        name: "provisioner",
        component: Provisioner::NAME,
        lock: csi_provisioner::lock,
        gates: csi_provisioner::GATES,
        rights: rights::PROVISIONER,
        in_namespace: &[rights::PROVISIONER_LEASES, rights::PROVISIONER_CAPACITY],
        defaults: CsiProvisioner::PROGRAM.defaults,
        needs: None,
        declare: csi_provisioner::Own::augment_args,
        start: |ports, sidecar, words, _| Ok(Box::pin(csi_provisioner::work(ports, sidecar, flags(words)?))),
    },
    Controller {
        name: "attacher",
        component: Attacher::NAME,
        lock: csi_attacher::lock,
        gates: csi_attacher::GATES,
        rights: rights::ATTACHER,
        in_namespace: &[rights::ATTACHER_LEASES],
        defaults: CsiAttacher::PROGRAM.defaults,
        needs: None,
        declare: external_attacher::Flags::augment_args,
        start: |ports, sidecar, words, _| {
            Ok(Box::pin(role::run::<Attacher>(ports, (sidecar, flags(words)?))))
        },
    },
    Controller {
        name: "resizer",
        component: external_resizer::NAME,
        lock: csi_resizer::lock,
        gates: csi_resizer::GATES,
        rights: rights::RESIZER,
        in_namespace: &[rights::RESIZER_LEASES],
        defaults: CsiResizer::PROGRAM.defaults,
        needs: None,
        declare: external_resizer::Flags::augment_args,
        start: |ports, sidecar, words, gates| {
            let gates = csi_resizer::switched(gates);
            Ok(Box::pin(external_resizer::run(ports, sidecar, flags(words)?, gates)))
        },
    },
    Controller {
        name: "snapshotter",
        component: Snapshotter::NAME,
        lock: csi_snapshotter::lock,
        gates: csi_snapshotter::GATES,
        rights: rights::SNAPSHOTTER,
        in_namespace: &[rights::SNAPSHOT_LEASES],
        defaults: CsiSnapshotter::PROGRAM.defaults,
        needs: Some("/apis/snapshot.storage.k8s.io/v1"),
        declare: external_snapshotter::Flags::augment_args,
        start: |ports, sidecar, words, _| {
            Ok(Box::pin(role::run::<Snapshotter>(ports, (sidecar, flags(words)?))))
        },
    },
    Controller {
        name: "health-monitor",
        component: HealthMonitor::NAME,
        lock: csi_external_health_monitor_controller::lock,
        gates: &[],
        rights: rights::HEALTH_MONITOR,
        in_namespace: &[rights::HEALTH_MONITOR_LEASES],
        defaults: CsiExternalHealthMonitorController::PROGRAM.defaults,
        needs: None,
        declare: external_health_monitor::Flags::augment_args,
        start: |ports, sidecar, words, _| {
            Ok(Box::pin(role::run::<HealthMonitor>(ports, (sidecar, flags(words)?))))
        },
    },
];

/// A flag of one controller as this program has it.
pub struct Flag {
    pub controller: &'static Controller,
    pub argument: Arg,
    /// As the controller's own program has it.
    pub own: String,
    /// With the controller's name before it where another one has the same.
    pub name: String,
    pub id: String,
}

/// All flags of all controllers.
pub static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let declared = |controller: &'static Controller| {
        controller.arguments().into_iter().filter_map(move |argument| {
            let own = argument.get_long()?.to_owned();
            Some((controller, argument, own))
        })
    };
    let all: Vec<_> = CONTROLLERS.iter().flat_map(declared).collect();
    let shared = sidecar::shared_flags();
    let collides = |own: &str| {
        shared.iter().any(|name| name == own) || all.iter().filter(|(_, _, other)| other == own).count() > 1
    };
    let flag = |(controller, argument, own): &(&'static Controller, Arg, String)| Flag {
        controller,
        argument: argument.clone(),
        own: own.clone(),
        name: if collides(own) { format!("{}-{own}", controller.name) } else { own.clone() },
        id: format!("{}.{own}", controller.name),
    };
    all.iter().map(flag).collect()
});

/// `--NAME-timeout` of each controller.
pub static TIMEOUTS: LazyLock<Vec<(&'static Controller, String)>> = LazyLock::new(|| {
    CONTROLLERS.iter().map(|controller| (controller, format!("{}-timeout", controller.name))).collect()
});
