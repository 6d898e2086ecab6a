//! What is known about a socket or a departed driver.

use std::path::Path;

use bowline_api::{CSINode, Node};
use bowline_machinery::EffectError;

use super::act::Manager;
use super::version;
use super::world::{DepartedSeen, Key, Observed, SocketSeen};

impl Manager {
    pub(super) fn seen(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(Some(match key {
            Key::Socket(path) => Observed::Socket(self.socket(path)),
            Key::Departed(driver) => Observed::Departed(self.departed(driver)),
        }))
    }

    fn socket(&self, path: &Path) -> SocketSeen {
        let plugin = self.memory.plugin(path);
        let rival = plugin.as_ref().and_then(|p| self.memory.rival_versions(&p.info.name, path));
        SocketSeen {
            path: path.to_owned(),
            generation: self.memory.generation(path),
            plugin,
            rival: rival.and_then(|versions| version::highest(&versions).ok()),
            node: self.node(),
            csi_node: self.csi_node(),
        }
    }

    fn departed(&self, driver: &str) -> DepartedSeen {
        DepartedSeen {
            driver: driver.to_owned(),
            now: self.ports.host.clock.now(),
            due: self.memory.due(driver),
            back: self.memory.offered(driver, None),
            node: self.node(),
            csi_node: self.csi_node(),
        }
    }

    pub(super) fn node(&self) -> Option<Node> {
        self.ports.informers.of::<Node>().named(&self.node_name).map(|n| (*n).clone())
    }

    pub(super) fn csi_node(&self) -> Option<CSINode> {
        self.ports.informers.of::<CSINode>().named(&self.node_name).map(|n| (*n).clone())
    }
}
