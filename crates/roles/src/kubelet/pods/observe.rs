//! A pod, its containers and its volumes as they are.

use std::collections::BTreeMap;

use bowline_api::{Meta, ObjectKey, Pod, pod};

use super::model::{Observed, PodVolumes};
use super::role::Pods;
use super::runtime::PodMemory;
use super::spec::{self, Objects};
use crate::indexes::pod_with_uid;

impl Pods {
    /// `None` when the pod is neither in the API nor known here.
    pub(super) fn seen(&self, uid: &str) -> Option<Observed> {
        let (pod, known) = (pod_with_uid(&self.pods, uid), self.runtime.get(uid));
        if pod.is_none() && known.is_none() {
            return None;
        }
        let (now, wall) = (self.ports.host.uptime.uptime(), self.ports.host.clock.now());
        let volumes = self.volumes(pod.as_deref());
        // A copy: what changed since it was remembered counts for this look.
        let mut memory = known.unwrap_or_else(PodMemory::unknown);
        memory.saw(pod.as_deref(), &volumes, now, wall);
        Some(Observed {
            uid: uid.to_owned(),
            now,
            wall,
            known_since: memory.known_since.unwrap_or(now),
            deleting_since: memory.deleting_since,
            active: memory.active,
            config: self.config.clone(),
            attempts: memory.attempts,
            crashes: memory.crashes,
            volumes,
            rejected: self.mounts.rejected(uid),
            objects: self.objects(living(pod.as_deref())),
            problem_since: memory.problem_since,
            told: memory.told,
            left: self.mounts.left(uid) || self.local.left(uid),
            inside: self.tenants.inside(uid),
            evicting: self.tenants.evicting(),
            directory: memory.directory,
            pod,
        })
    }

    /// What is known of a pod's volumes.
    pub(super) fn volumes(&self, pod: Option<&Pod>) -> PodVolumes {
        match pod {
            Some(pod) => self.local.with(pod, self.mounts.ready(pod)),
            None => PodVolumes::Ready(BTreeMap::new()),
        }
    }

    /// What is known of the objects that the variables of a living pod come from.
    pub(super) fn objects(&self, living: Option<&Pod>) -> Objects {
        let (maps, secrets) = living.map(spec::references).unwrap_or_default();
        let namespace = living.map(Meta::namespace).unwrap_or_default();
        let key = |name: &str| ObjectKey::new(namespace, name);
        Objects {
            maps: maps.iter().map(|name| ((*name).to_owned(), self.maps.get(&key(name)))).collect(),
            secrets: secrets.iter().map(|name| ((*name).to_owned(), self.secrets.get(&key(name)))).collect(),
            node: self.nodes.named(&self.config.node_name),
        }
    }
}

/// A pod that may still start containers.
pub(super) fn living(pod: Option<&Pod>) -> Option<&Pod> {
    pod.filter(|pod| !pod.deleting() && !pod::terminated(pod))
}
