//! All roles in one process, around one driver: what `bowline up` and the simulation run.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{CSINode, Node, node};
use bowline_machinery::{Ports, RunError};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::kubelet::{Kubelet, KubeletConfig, run_kubelet};
use crate::{
    attachdetach, external_attacher, external_provisioner, node_driver_registrar, persistentvolume,
    pvcprotection, pvprotection, scheduler,
};

/// What the roles need to know of their surroundings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub node_name: String,
    /// Upstream: `/var/lib/kubelet`.
    pub kubelet_dir: PathBuf,
    pub driver_socket: PathBuf,
    pub driver_name: String,
    /// Directories that containers must not see.
    pub hidden: Vec<PathBuf>,
}

/// The running roles.
pub struct Embedded {
    ports: Ports,
    settings: Settings,
    tasks: TaskTracker,
    failure: watch::Sender<Option<Arc<RunError>>>,
    kubelet: Kubelet,
}

impl Embedded {
    /// Starts every role. They run until `ports.stop` is cancelled.
    pub async fn start(ports: &Ports, settings: Settings) -> Result<Self, RunError> {
        let mut config = KubeletConfig::new(&settings.node_name, &settings.kubelet_dir);
        config.data_dir_hidden.clone_from(&settings.hidden);
        let (tasks, failure) = (TaskTracker::new(), watch::channel(None).0);
        let role = |run: RunRole| supervise(&tasks, &failure, run);

        role(Box::pin(persistentvolume::run(ports.clone(), crate::flags(&[])?)));
        role(Box::pin(attachdetach::run(ports.clone(), crate::flags(&[])?)));
        role(Box::pin(pvprotection::run(ports.clone())));
        role(Box::pin(pvcprotection::run(ports.clone())));
        role(Box::pin(scheduler::run(ports.clone())));
        let socket = settings.driver_socket.to_string_lossy().into_owned();
        let csi = ["--csi-address", socket.as_str()];
        role(Box::pin(external_provisioner::run(ports.clone(), crate::flags(&csi)?)));
        role(Box::pin(external_attacher::run(ports.clone(), crate::flags(&csi)?)));
        let registry = settings.kubelet_dir.join("plugins_registry");
        let registry = registry.to_string_lossy().into_owned();
        let registrar = [
            csi.as_slice(),
            &["--kubelet-registration-path", &socket, "--plugin-registration-path", &registry],
        ];
        role(Box::pin(node_driver_registrar::run(ports.clone(), crate::flags(&registrar.concat())?)));
        let kubelet = run_kubelet(ports.clone(), config).await?;
        Ok(Self { ports: ports.clone(), settings, tasks, failure, kubelet })
    }

    /// Waits until the node is Ready and knows the driver.
    pub async fn ready(&self) {
        let informers = &self.ports.informers;
        let (name, driver) = (self.settings.node_name.as_str(), self.settings.driver_name.as_str());
        let knows = |n: &CSINode| n.spec.drivers.iter().any(|d| d.name == driver);
        informers.of::<CSINode>().until(|c| c.named(name).filter(|n| knows(n))).await;
        let schedulable = |n: &Node| node::ready(n) && node::taints(n).is_empty();
        informers.of::<Node>().until(|c| c.named(name).filter(|n| schedulable(n))).await;
    }

    /// Resolves when a role has ended with an error.
    pub async fn failed(&self) -> Arc<RunError> {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            // The sender is ours, so this cannot fail.
            let _ = failure.changed().await;
        }
    }

    /// Ends containers and takes down their volumes. False: something was still in use when time ran out.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.kubelet.drain(timeout).await
    }

    /// Waits for the roles after `ports.stop` was cancelled.
    pub async fn finished(self) -> Result<(), RunError> {
        self.tasks.close();
        self.tasks.wait().await;
        self.kubelet.finished().await
    }
}

type RunRole = std::pin::Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>>;

/// Runs a role; the first that fails is remembered.
fn supervise(tasks: &TaskTracker, failure: &watch::Sender<Option<Arc<RunError>>>, role: RunRole) {
    let failure = failure.clone();
    tasks.spawn(async move {
        if let Err(error) = role.await {
            tracing::error!(%error, "a role ended");
            failure.send_if_modified(|first| first.is_none() && first.replace(Arc::new(error)).is_none());
        }
    });
}
