//! All roles in one process, around the drivers: what `bowline up` and the simulation run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{CSINode, Node, ObjectKey, ServiceAccount, node};
use bowline_machinery::client::Subject;
use bowline_machinery::queue::Backoff;
use bowline_machinery::supervise::{beside, supervised};
use bowline_machinery::{Cache, Ports, Role, RunError, Sidecar, role};

use crate::controllers::CONTROLLERS;
use crate::crew::Crew;
use crate::kubelet::{Kubelet, KubeletConfig, Serving, run_kubelet};
use crate::sidecars::external_attacher::Attacher;
use crate::sidecars::external_provisioner::Provisioner;
use crate::sidecars::external_snapshotter::{Snapshotter, can_snapshot};
use crate::sidecars::node_driver_registrar::Named;
use crate::sidecars::snapshot_controller::SnapshotController;
use crate::sidecars::{
    external_attacher, external_provisioner, external_resizer, external_snapshotter, node_driver_registrar,
};
use crate::{controllers, scheduler};

/// Longest time for one CSI call: upstream's default for most sidecars.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How long the start waits for drivers to register.
const REGISTRATION: Duration = Duration::from_secs(30);

/// The users and service accounts that roles act as; those of controllers are in the table of controllers.
const SCHEDULER: &str = "system:kube-scheduler";
const PROVISIONER: &str = "csi-provisioner";
const ATTACHER: &str = "csi-attacher";
const RESIZER: &str = "csi-resizer";
const SNAPSHOTTER: &str = "csi-snapshotter";
const SNAPSHOT_CONTROLLER: &str = "snapshot-controller";

/// What the roles need to know of their surroundings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub node_name: String,
    /// Upstream: `/var/lib/kubelet`.
    pub kubelet_dir: PathBuf,
    pub drivers: Vec<Driver>,
    /// Directories that containers must not see.
    pub hidden: Vec<PathBuf>,
    /// `--allow-privileged`: whether containers may have what reaches beyond them.
    pub allow_privileged: bool,
    /// Where the kubelet answers the API server, if it does.
    pub kubelet: Option<Serving>,
    /// The certificate of the API server's authority, PEM. With it, every namespace gets what pods need to talk to the
    /// server: an account and this certificate.
    pub root_ca: Option<String>,
}

/// A driver that serves on a socket of its own.
#[derive(Debug, Clone)]
pub struct Driver {
    pub name: String,
    pub socket: PathBuf,
    /// Whether its CSIDriver says `attachRequired`. Nothing is to be attached otherwise.
    pub attaches: bool,
}

/// The running roles.
pub struct Embedded {
    ports: Ports,
    settings: Settings,
    crew: Crew,
    kubelet: Kubelet,
}

impl Embedded {
    /// Starts every role. They run until `ports.stop` is cancelled.
    pub async fn start(ports: &Ports, settings: Settings) -> Result<Self, RunError> {
        Self::start_as(ports, ports, settings).await
    }

    /// The same, with a way to the API server on which the kubelet has its own rights.
    pub async fn start_as(ports: &Ports, node: &Ports, settings: Settings) -> Result<Self, RunError> {
        clear_stale_sockets(ports, &settings).await?;
        let crew = Crew::default();
        let controllers = controllers::Settings {
            binder: crate::flags(&[])?,
            attach_detach: crate::flags(&[])?,
            root_ca: settings.root_ca.clone(),
        };
        CONTROLLERS.iter().filter_map(|c| c.start(ports, &controllers)).for_each(|running| crew.run(running));
        let scheduler = ports.acting_as(&Subject::User(SCHEDULER))?;
        crew.run(supervised(scheduler::Scheduler::NAME, ports, move || {
            role::run::<scheduler::Scheduler>(scheduler.clone(), ())
        }));
        start_snapshot_controller(ports, &crew)?;
        for driver in &settings.drivers {
            start_snapshotter(ports, driver, &crew)?;
            start_sidecars(ports, &settings, driver, &crew)?;
        }
        let mut config = KubeletConfig::new(&settings.node_name, &settings.kubelet_dir);
        config.data_dir_hidden.clone_from(&settings.hidden);
        config.allow_privileged = settings.allow_privileged;
        config.serving.clone_from(&settings.kubelet);
        let kubelet = run_kubelet(node.clone(), config, &crew).await?;
        Ok(Self { ports: ports.clone(), settings, crew, kubelet })
    }

    /// Waits until the node is Ready and pods can be created, and for a while until the node knows the drivers.
    pub async fn ready(&self) {
        let informers = &self.ports.informers;
        let name = self.settings.node_name.as_str();
        let drivers: Vec<&str> = self.settings.drivers.iter().map(|driver| driver.name.as_str()).collect();
        registered(&self.ports, name, &drivers).await;
        informers.of::<Node>().until(|c| c.named(name).filter(|n| node::started(n))).await;
        if self.settings.root_ca.is_some() {
            // Pods are refused before.
            let default = ObjectKey::new("default", "default");
            informers.of::<ServiceAccount>().until(|c| c.get(&default)).await;
        }
    }

    /// Resolves when a role has ended with an error.
    pub async fn failed(&self) -> Arc<RunError> {
        self.crew.failed().await
    }

    /// Ends containers and takes down their volumes. False: something was still in use when time ran out.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.kubelet.drain(timeout).await
    }

    /// Waits for the roles after `ports.stop` was cancelled.
    pub async fn finished(&self) -> Result<(), Arc<RunError>> {
        self.crew.finished().await
    }
}

/// Waits for a while until a node knows these drivers. One that cannot register holds up nothing else: the log names it.
pub async fn registered(ports: &Ports, node: &str, drivers: &[&str]) {
    let nodes = ports.informers.of::<CSINode>();
    let lacking = |cache: &Cache<CSINode>| -> Vec<&str> {
        let known = cache.named(node);
        let knows = |name: &str| known.iter().any(|node| node.spec.drivers.iter().any(|d| d.name == name));
        drivers.iter().copied().filter(|name| !knows(name)).collect()
    };
    let all = nodes.until(|cache| lacking(cache).is_empty().then_some(()));
    if tokio::time::timeout(REGISTRATION, all).await.is_err() {
        let drivers = lacking(&nodes).join(", ");
        tracing::warn!(node, drivers, waited = ?REGISTRATION, "not registered yet: pods with their volumes wait; the registrar's errors in this log say why");
    }
}

/// Removes registration sockets of our drivers that an earlier process left, before the kubelet finds them and calls in
/// vain. One that still answers is another process's: the registrar says so.
async fn clear_stale_sockets(ports: &Ports, settings: &Settings) -> Result<(), RunError> {
    for driver in &settings.drivers {
        let socket = registry(settings).join(node_driver_registrar::socket_name(&driver.name));
        let refused = ports.host.net.connect(&socket).await.err().map(|error| error.kind());
        if refused == Some(io::ErrorKind::ConnectionRefused) {
            ports.host.disk.remove_file(&socket).await.map_err(|source| RunError::Io {
                what: "remove a stale socket",
                path: socket.display().to_string(),
                source,
            })?;
        }
    }
    Ok(())
}

fn registry(settings: &Settings) -> PathBuf {
    settings.kubelet_dir.join("plugins_registry")
}

/// One for all drivers.
fn start_snapshot_controller(ports: &Ports, crew: &Crew) -> Result<(), RunError> {
    let with = ports.acting_as(&Subject::ServiceAccount(SNAPSHOT_CONTROLLER))?;
    let flags: crate::sidecars::snapshot_controller::Flags = crate::flags(&[])?;
    crew.run(supervised(SnapshotController::NAME, ports, move || {
        role::run::<SnapshotController>(with.clone(), flags.clone())
    }));
    Ok(())
}

/// Beside a driver that takes snapshots; another one needs none.
fn start_snapshotter(ports: &Ports, driver: &Driver, crew: &Crew) -> Result<(), RunError> {
    let with = ports.acting_as(&Subject::ServiceAccount(SNAPSHOTTER))?;
    let socket = driver.socket.clone();
    let flags: external_snapshotter::Flags = crate::flags(&[])?;
    crew.run(supervised(Snapshotter::NAME, ports, move || {
        let (ports, socket, flags) = (with.clone(), socket.clone(), flags.clone());
        async move {
            let sidecar = connected(&ports, Snapshotter::NAME, &socket).await?;
            beside(&sidecar, &ports, |ports| {
                let sidecar = sidecar.clone();
                async move {
                    if !can_snapshot(&sidecar.identity) {
                        ports.stop.cancelled().await;
                        return Ok(());
                    }
                    role::run::<Snapshotter>(ports, (sidecar, flags)).await
                }
            })
            .await
        }
    }));
    Ok(())
}

/// What upstream runs beside a driver, on its socket. One that fails is started again: the others, and other drivers, go on.
fn start_sidecars(ports: &Ports, settings: &Settings, driver: &Driver, crew: &Crew) -> Result<(), RunError> {
    let with = ports.acting_as(&Subject::ServiceAccount(PROVISIONER))?;
    let socket = driver.socket.clone();
    let flags: external_provisioner::Flags = crate::flags(&[])?;
    crew.run(supervised(Provisioner::NAME, ports, move || {
        let (ports, socket, flags) = (with.clone(), socket.clone(), flags.clone());
        async move {
            let sidecar = connected(&ports, Provisioner::NAME, &socket).await?.in_namespace("kube-system");
            beside(&sidecar, &ports, |ports| role::run::<Provisioner>(ports, (sidecar.clone(), flags))).await
        }
    }));
    if driver.attaches {
        let with = ports.acting_as(&Subject::ServiceAccount(ATTACHER))?;
        let socket = driver.socket.clone();
        let flags: external_attacher::Flags = crate::flags(&[])?;
        crew.run(supervised(Attacher::NAME, ports, move || {
            let (ports, socket, flags) = (with.clone(), socket.clone(), flags.clone());
            async move {
                let sidecar = connected(&ports, Attacher::NAME, &socket).await?;
                beside(&sidecar, &ports, |ports| role::run::<Attacher>(ports, (sidecar.clone(), flags))).await
            }
        }));
    }
    start_resizer(ports, driver, crew)?;
    let socket = driver.socket.to_string_lossy().into_owned();
    let registry = registry(settings).to_string_lossy().into_owned();
    let paths = ["--csi-address", &socket, "--kubelet-registration-path", &socket];
    let paths = [paths.as_slice(), &["--plugin-registration-path", &registry]].concat();
    let flags: node_driver_registrar::Flags = crate::flags(&paths)?;
    let with = ports.clone();
    crew.run(supervised(node_driver_registrar::NAME, ports, move || {
        node_driver_registrar::run(with.clone(), flags.clone(), Named::default())
    }));
    Ok(())
}

/// Only beside a driver that can expand or modify volumes.
fn start_resizer(ports: &Ports, driver: &Driver, crew: &Crew) -> Result<(), RunError> {
    let with = ports.acting_as(&Subject::ServiceAccount(RESIZER))?;
    let socket = driver.socket.clone();
    let flags: external_resizer::Flags = crate::flags(&[])?;
    let gates = external_resizer::Gates { volume_attributes_class: true };
    crew.run(supervised(external_resizer::NAME, ports, move || {
        let (ports, socket, flags) = (with.clone(), socket.clone(), flags.clone());
        async move {
            let sidecar = connected(&ports, external_resizer::NAME, &socket).await?;
            beside(&sidecar, &ports, |ports| async {
                if external_resizer::serves(&ports, &sidecar).await? {
                    return external_resizer::run(ports, sidecar.clone(), flags, gates).await;
                }
                ports.stop.cancelled().await;
                Ok(())
            })
            .await
        }
    }));
    Ok(())
}

/// Waits for the driver; the process may stop meanwhile.
async fn connected(ports: &Ports, name: &'static str, socket: &Path) -> Result<Sidecar, RunError> {
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => Err(RunError::Refused("stopped while waiting for the driver".into())),
        sidecar = Sidecar::connect(ports, name, socket, TIMEOUT, Backoff::SIDECAR) => sidecar,
    }
}
