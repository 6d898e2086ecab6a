//! Since when nodes are not ready, noted before each look at them.

use bowline_api::node;

use super::model::Key;
use super::role::HealthMonitor;

impl HealthMonitor {
    pub(super) fn note_node(&self, key: &Key) {
        let (Key::Node(name), Some(nodes)) = (key, &self.nodes) else { return };
        if let Some(object) = nodes.named(name) {
            self.memory.saw(name, node::ready(&object), self.ports.host.uptime.uptime());
        }
    }
}
