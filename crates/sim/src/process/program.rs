//! What each program does from its start to its end, as the binary wires it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_drivers::local::{self, LocalConfig, NamedNode};
use bowline_host::Host;
use bowline_machinery::lease::settings::sanitize;
use bowline_machinery::lease::{Settings as LeaseSettings, Timing};
use bowline_machinery::queue::Backoff;
use bowline_machinery::supervise::beside;
use bowline_machinery::{Lease, Ports, Role, RunError, Sidecar, role};
use bowline_roles::controllers::{CONTROLLERS, Settings};
use bowline_roles::crew::Crew;
use bowline_roles::flags;
use bowline_roles::kubelet::{KubeletConfig, run_kubelet};
use bowline_roles::scheduler::Scheduler;
use bowline_roles::sidecars::external_attacher::Attacher;
use bowline_roles::sidecars::external_provisioner::Provisioner;
use bowline_roles::sidecars::node_driver_registrar::{self, Named};
use tokio_util::sync::CancellationToken;

use crate::cluster::{NODES, node_name};
use crate::oracle::{POOL, kubelet_dir};

/// Longest time for one CSI call of a sidecar.
const TIMEOUT: Duration = Duration::from_secs(15);
const SOCKETS: &str = "/csi";
/// Clients are in this process and check no certificate.
const AUTHORITY: &str = "the authority of the simulated API server";
const ZONE: &str = "topology.local.csi.bowline.dev/zone";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    ControllerManager,
    Scheduler,
    Provisioner,
    Attacher,
    Registrar(usize),
    Kubelet(usize),
    Driver,
}

impl Program {
    pub fn name(self) -> String {
        match self {
            Self::ControllerManager => "kube-controller-manager".into(),
            Self::Scheduler => "kube-scheduler".into(),
            Self::Provisioner => "csi-provisioner".into(),
            Self::Attacher => "csi-attacher".into(),
            Self::Registrar(node) => format!("csi-node-driver-registrar-{node}"),
            Self::Kubelet(node) => format!("kubelet-{node}"),
            Self::Driver => "driver".into(),
        }
    }

    /// The node that it runs on; the control plane has a machine of its own.
    pub fn node(self) -> Option<usize> {
        match self {
            Self::ControllerManager | Self::Scheduler => None,
            Self::Registrar(node) | Self::Kubelet(node) => Some(node),
            Self::Provisioner | Self::Attacher | Self::Driver => Some(0),
        }
    }

    /// Whether it ends when a node loses power. One driver serves all nodes, each of which would have its own.
    pub fn ends_with(self, node: usize) -> bool {
        self == Self::Driver || self.node() == Some(node)
    }

    /// The lease that its replicas share, and its timing.
    pub fn lease(self) -> Option<(String, &'static str, Timing)> {
        match self {
            Self::ControllerManager => Some(("kube-controller-manager".into(), "kube-system", Timing::CORE)),
            Self::Scheduler => Some(("kube-scheduler".into(), "kube-system", Timing::CORE)),
            Self::Provisioner => Some((sanitize(local::NAME), "default", Timing::SIDECARS)),
            Self::Attacher => {
                let name = format!("external-attacher-leader-{}", local::NAME);
                Some((sanitize(&name), "default", Timing::SIDECARS))
            }
            Self::Registrar(_) | Self::Kubelet(_) | Self::Driver => None,
        }
    }
}

fn socket(node: usize) -> PathBuf {
    Path::new(SOCKETS).join(node_name(node)).join("csi.sock")
}

/// How a program is started.
pub struct Start {
    pub program: Program,
    /// Its name as a candidate for the lease, where others run beside it.
    pub identity: Option<String>,
    /// Whether the garbage collector is one of the controllers.
    pub collects: bool,
}

/// Runs a program until `ports.stop`, its driver's end, or the loss of its lease.
pub async fn run(start: Start, ports: Ports, host: Host) -> Result<(), RunError> {
    match start.program {
        Program::Driver => drive(host, ports.stop.clone()).await,
        Program::Registrar(node) => {
            let (socket, registry) = (socket(node), kubelet_dir(&node_name(node)).join("plugins_registry"));
            let (socket, registry) = (socket.to_string_lossy(), registry.to_string_lossy());
            let flags = ["--csi-address", &socket, "--kubelet-registration-path", &socket];
            let flags = flags.into_iter().chain(["--plugin-registration-path", &*registry]);
            let flags: Vec<&str> = flags.collect();
            node_driver_registrar::run(ports, self::flags(&flags)?, Named::default()).await
        }
        Program::Kubelet(node) => kubelet(ports, &node_name(node)).await,
        Program::ControllerManager => manage(lead(&start, ports, &host), start.collects).await,
        Program::Scheduler => role::run::<Scheduler>(lead(&start, ports, &host), ()).await,
        Program::Provisioner => {
            let sidecar = connect(&ports, Provisioner::NAME).await?;
            let ports = lead(&start, ports, &host);
            let flags = flags(&["--hostname", "sim"])?;
            beside(&sidecar, &ports, |ports| role::run::<Provisioner>(ports, (sidecar.clone(), flags))).await
        }
        Program::Attacher => {
            let sidecar = connect(&ports, Attacher::NAME).await?;
            let ports = lead(&start, ports, &host);
            let flags = flags(&[])?;
            beside(&sidecar, &ports, |ports| role::run::<Attacher>(ports, (sidecar.clone(), flags))).await
        }
    }
}

async fn connect(ports: &Ports, name: &'static str) -> Result<Sidecar, RunError> {
    Sidecar::connect(ports, name, &socket(0), TIMEOUT, Backoff::SIDECAR).await
}

/// With a lease, where others run beside it.
fn lead(start: &Start, ports: Ports, host: &Host) -> Ports {
    let (Some((name, namespace, timing)), Some(identity)) = (start.program.lease(), start.identity.clone())
    else {
        return ports;
    };
    let settings = LeaseSettings {
        namespace: namespace.into(),
        name,
        identity,
        labels: Default::default(),
        timing,
        release_on_exit: true,
    };
    let (lease, leadership) = Lease::new(ports.client.clone(), host.clone(), settings);
    tokio::spawn(lease.after_roles(ports.starts.clone()).run(ports.stop.clone()));
    ports.led_by(leadership)
}

async fn manage(ports: Ports, collects: bool) -> Result<(), RunError> {
    let settings =
        Settings { binder: flags(&[])?, attach_detach: flags(&[])?, root_ca: Some(AUTHORITY.into()) };
    let crew = Crew::default();
    let wanted = CONTROLLERS.iter().filter(|controller| collects || controller.alias != "garbagecollector");
    wanted.filter_map(|c| c.start(&ports, &settings)).for_each(|running| crew.run(running));
    ended(&crew, &ports).await
}

async fn kubelet(ports: Ports, node: &str) -> Result<(), RunError> {
    let crew = Crew::default();
    let config = KubeletConfig::new(node, kubelet_dir(node));
    let _running = run_kubelet(ports.clone(), config, &crew).await?;
    ended(&crew, &ports).await
}

/// The first role that fails ends the program.
async fn ended(crew: &Crew, ports: &Ports) -> Result<(), RunError> {
    tokio::select! {
        biased;
        failed = crew.failed() => Err(RunError::Refused(failed.to_string())),
        () = ports.stop.cancelled() => Ok(()),
    }
}

/// One driver for all nodes, which share their place: a volume can go from one to another.
async fn drive(host: Host, stop: CancellationToken) -> Result<(), RunError> {
    let refused = |error: &dyn std::fmt::Display| RunError::Refused(error.to_string());
    let mut config = LocalConfig::new(POOL.into(), node_name(0)).map_err(|error| refused(&error))?;
    for node in 1..NODES {
        let mut other = NamedNode::new(node_name(node)).map_err(|error| refused(&error))?;
        other.endpoint = Some(socket(node));
        config.others.push(other);
    }
    config.share_topology(&[(ZONE.to_owned(), "here".to_owned())].into());
    for node in 0..NODES {
        let dir = socket(node).with_file_name("");
        let made = host.disk.create_dir_all(&dir, 0o750).await;
        made.map_err(|error| refused(&error))?;
    }
    local::run(host, config, &socket(0), stop).await.map_err(|error| refused(&error))
}
