//! Caches → everything that bears on one pod. Only what its claims and drivers touch is read, apart from the nodes.

mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_api::{
    CSIStorageCapacity, Meta, Node, ObjectKey, PersistentVolume, Pod, StorageClass, keys, pod, volume,
};

use super::filed::CAPACITIES_BY_CLASS;
use super::model::{ClaimSeen, NodeSeen, Observed};
use super::role::Scheduler;
use crate::indexes;

const SCHEDULER_NAME: &str = "default-scheduler";

/// Whether a pod is this scheduler's to place.
pub(super) fn unscheduled(this: &Pod) -> bool {
    let scheduler = this.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or_default();
    pod::node_name(this).is_empty()
        && (scheduler.is_empty() || scheduler == SCHEDULER_NAME)
        && !this.deleting()
        && !pod::terminated(this)
}

impl Scheduler {
    pub(super) fn see(&self, key: &ObjectKey) -> Option<Observed> {
        let pod = self.pods.get(key).filter(|pod| unscheduled(pod))?;
        let claims = pod::claims(&pod).map(|(volume, name)| self.claim(&pod, volume, name)).collect();
        let brings = self.volumes_of(&pod);
        let nodes = self.nodes.list().into_iter().map(|node| self.node(node, &pod, &brings)).collect();
        Some(Observed { pod, claims, nodes, brings })
    }

    fn claim(&self, pod: &Pod, in_pod: &str, name: String) -> ClaimSeen {
        let key = ObjectKey::new(pod.namespace(), &name);
        let claim = self.claims.get(&key);
        let class = claim.as_deref().and_then(volume::claim_class).and_then(|name| self.classes.named(name));
        let named = claim.as_deref().map(volume::claim_volume).filter(|name| !name.is_empty());
        ClaimSeen {
            ephemeral: pod::volumes(pod).iter().any(|v| v.name == in_pod && v.ephemeral.is_some()),
            volume: named.and_then(|name| self.volumes.named(name)),
            candidates: if named.is_none() { self.candidates(&key, class.as_deref()) } else { Vec::new() },
            capacities: class.as_deref().and_then(|class| self.published(class)),
            other_user: self.other_user(pod, &key),
            claim,
            class,
            name,
        }
    }

    fn candidates(&self, key: &ObjectKey, class: Option<&StorageClass>) -> Vec<Arc<PersistentVolume>> {
        let mut found = self.volumes.indexed(indexes::VOLUMES_BY_CLAIM, &key.to_string());
        let class = class.map(Meta::name).unwrap_or_default();
        found.extend(self.volumes.indexed(indexes::FREE_VOLUMES_BY_CLASS, class));
        found
    }

    /// Room for a class, when its driver publishes any.
    fn published(&self, class: &StorageClass) -> Option<Vec<Arc<CSIStorageCapacity>>> {
        let driver = self.drivers.named(&class.provisioner)?;
        let publishes = driver.spec.storage_capacity.unwrap_or(false);
        publishes.then(|| self.capacities.indexed(CAPACITIES_BY_CLASS, class.name()))
    }

    /// A pod with a node counts until it is gone or has run to its end, also while it is being deleted.
    fn other_user(&self, this: &Pod, claim: &ObjectKey) -> Option<String> {
        let users = self.pods.indexed(indexes::PODS_BY_CLAIM, &claim.to_string());
        let counts = |user: &&Arc<Pod>| {
            !pod::node_name(user).is_empty()
                && user.uid() != this.uid()
                && !matches!(pod::phase(user), "Failed" | "Succeeded")
        };
        users.iter().find(counts).map(|user| user.name().to_owned())
    }

    /// The node that a pod without one has chosen for its claims.
    pub(super) fn chosen(&self, pod: &Pod) -> Option<String> {
        let claims =
            pod::claims(pod).filter_map(|(_, name)| self.claims.get(&ObjectKey::new(pod.namespace(), name)));
        claims.filter_map(|claim| claim.annotation(keys::SELECTED_NODE).map(String::from)).next()
    }

    /// Pods on the node, and those that will follow.
    fn node(&self, node: Arc<Node>, pod: &Pod, brings: &BTreeMap<String, BTreeSet<String>>) -> NodeSeen {
        let name = node.name();
        let load = self.pods.indexed_len(indexes::LIVE_PODS_BY_NODE, name) + self.assumed.on(name);
        let given_back = self.tried.times(&pod.key(), name);
        NodeSeen { given_back, load, rooms: self.rooms(name, pod, brings), node }
    }

    /// Pods that use a claim and have no node.
    pub fn waiting_for(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        let users = self.pods.indexed(indexes::PODS_BY_CLAIM, &claim.to_string());
        users.iter().filter(|user| unscheduled(user)).map(|user| user.key()).collect()
    }
}
