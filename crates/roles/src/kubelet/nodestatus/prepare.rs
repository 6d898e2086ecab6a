//! What is read before the node is looked at, because a node may not watch it.

use bowline_api::{CSINode, ObjectKey};
use bowline_machinery::EffectError;

use super::model::{Key, LOOK};
use super::role::Status;

impl Status {
    /// The CSINode is read now and then, and what this process wrote is in the cache.
    pub(super) async fn read_unwatched(&self, key: &Key) -> Result<(), EffectError> {
        let asked = self.ports.host.uptime.uptime();
        let fresh = || self.memory.csi_node_age(asked).is_some_and(|age| age < LOOK);
        if *key != Key::Node || fresh() {
            return Ok(());
        }
        match self.effects.read_through::<CSINode>(&ObjectKey::cluster(&self.node_name)).await {
            Ok(()) => self.memory.read_csi_node(asked),
            // The last report does not need it, and shall not fail for it.
            Err(_) if self.switch.is_off() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
