//! This node's objects: from the caches, and its lease as it was last written.

use bowline_api::{ObjectKey, keys};
use bowline_machinery::EffectError;

use super::model::{Key, LeaseSeen, NodeSeen, Observed};
use super::role::Status;

impl Status {
    pub(super) async fn see(&self, key: &Key) -> Result<Observed, EffectError> {
        Ok(match key {
            Key::Node => Observed::Node(Box::new(self.see_node())),
            Key::Lease => Observed::Lease(Box::new(self.see_lease().await?)),
        })
    }

    fn see_node(&self) -> NodeSeen {
        NodeSeen {
            now: self.ports.host.clock.now(),
            node_name: self.node_name.clone(),
            machine: self.machine.clone(),
            address: self.address,
            labels: self.labels.clone(),
            taints: self.taints.clone(),
            register: self.register,
            stopping: self.switch.is_off(),
            node: self.nodes.named(&self.node_name).map(|n| (*n).clone()),
            csi_node: self.csi_nodes.named(&self.node_name).map(|n| (*n).clone()),
            status_age: self.memory.status_age(self.ports.host.uptime.uptime()),
            in_use: self.in_use.lists(),
        }
    }

    /// Only this process writes the lease, so what it wrote last is what there is. Otherwise it is read: a node may not watch.
    async fn see_lease(&self) -> Result<LeaseSeen, EffectError> {
        let key = ObjectKey::new(keys::NODE_LEASE_NAMESPACE, &self.node_name);
        let lease = match self.memory.lease() {
            Some(lease) => Some(lease),
            None => self.effects.get_live(&key.namespace, &key.name).await?,
        };
        Ok(LeaseSeen {
            now: self.ports.host.clock.now(),
            node: self.nodes.named(&self.node_name).map(|n| (*n).clone()),
            lease,
            age: self.memory.lease_age(self.ports.host.uptime.uptime()),
        })
    }
}
