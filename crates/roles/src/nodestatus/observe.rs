//! This node's objects, from the caches.

use bowline_api::{CSINode, Lease, Namespace, Node, ObjectKey, keys};

use super::act::Status;
use super::world::Observed;

impl Status {
    pub(super) fn seen(&self) -> Observed {
        let informers = &self.ports.informers;
        let lease_key = ObjectKey::new(keys::NODE_LEASE_NAMESPACE, &self.node_name);
        Observed {
            now: self.ports.host.clock.now(),
            node_name: self.node_name.clone(),
            machine: self.machine.clone(),
            stopping: self.switch.is_off(),
            node: informers.of::<Node>().named(&self.node_name).map(|n| (*n).clone()),
            csi_node: informers.of::<CSINode>().named(&self.node_name).map(|n| (*n).clone()),
            lease_namespace: informers.of::<Namespace>().named(keys::NODE_LEASE_NAMESPACE).is_some(),
            lease: informers.of::<Lease>().get(&lease_key).map(|l| (*l).clone()),
            in_use: self.in_use.lists(),
        }
    }
}
