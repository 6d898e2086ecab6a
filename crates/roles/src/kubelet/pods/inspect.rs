//! Pods of this node as those see them who ask for logs or want to run something inside.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, Pod, pod};
use k8s_openapi::api::core::v1::ContainerStatus;

use super::role::Pods;
use super::runtime;
use super::spec;
use super::status::{CONTAINER_ID_PREFIX, container_status};

/// Clones share it.
#[derive(Clone)]
pub struct Inspector {
    pods: Arc<Pods>,
}

impl Inspector {
    pub(super) fn new(pods: Arc<Pods>) -> Self {
        Self { pods }
    }

    pub fn node_name(&self) -> &str {
        &self.pods.config.node_name
    }

    /// A pod that is bound to this node.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let found = self.pods.pods.get(&ObjectKey::new(namespace, name));
        found.filter(|found| pod::node_name(found) == self.pods.config.node_name)
    }

    /// The status of a container as it is now, which the API may not show yet. `None`: the pod has no such container.
    pub fn status(&self, pod: &Pod, container: &str) -> Option<ContainerStatus> {
        let seen = self.pods.seen(pod.uid())?;
        let init = spec::init_containers(pod).iter().find(|one| one.name == container);
        let app = spec::app_containers(pod).iter().find(|one| one.name == container);
        let (found, is_init) = init.map(|found| (found, true)).or(app.map(|found| (found, false)))?;
        Some(container_status(&seen, pod, found, is_init))
    }

    /// Where a run of a container writes to, by the id that its status shows.
    pub fn log(&self, pod: &Pod, container_id: &str) -> Option<PathBuf> {
        let (_, container, number) = runtime::parts(host_id(container_id)?)?;
        Some(spec::log(&self.pods.config, pod, container, number))
    }
}

/// The host's name of a container, by the id that its status shows.
pub fn host_id(container_id: &str) -> Option<&str> {
    container_id.strip_prefix(CONTAINER_ID_PREFIX)
}
