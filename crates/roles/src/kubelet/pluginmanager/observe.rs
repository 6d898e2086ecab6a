//! What is known about a socket or a departed driver.

use std::path::Path;
use std::time::Duration;

use bowline_api::{CSINode, Node};

use super::model::{DepartedSeen, Key, Observed, SocketSeen};
use super::role::Manager;
use super::version;

impl Manager {
    pub(super) fn see(&self, key: &Key) -> Observed {
        match key {
            Key::Socket(path) => Observed::Socket(Box::new(self.socket(path))),
            Key::Departed(driver) => Observed::Departed(Box::new(self.departed(driver))),
        }
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
            now: self.ports.host.uptime.uptime(),
            refresh_at: self.refresh_at(path),
        }
    }

    /// CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds after the last question, or at once if someone asks for it.
    pub(super) fn refresh_at(&self, path: &Path) -> Option<Duration> {
        let plugin = self.memory.plugin(path)?;
        let driver = self.csi_drivers.named(&plugin.info.name)?;
        let seconds = driver.spec.node_allocatable_update_period_seconds?;
        let period = Duration::from_secs(u64::try_from(seconds).ok()?);
        let last = self.memory.asked(&plugin.info.name);
        Some(last.map_or(Duration::ZERO, |last| last.saturating_add(period)))
    }

    fn departed(&self, driver: &str) -> DepartedSeen {
        DepartedSeen {
            driver: driver.to_owned(),
            linger: self.memory.due(driver).map(|due| due.saturating_sub(self.ports.host.uptime.uptime())),
            back: self.memory.offered(driver, None),
            node: self.node(),
            csi_node: self.csi_node(),
        }
    }

    pub(super) fn node(&self) -> Option<Node> {
        self.nodes.named(&self.node_name).map(|n| (*n).clone())
    }

    pub(super) fn csi_node(&self) -> Option<CSINode> {
        self.csi_nodes.named(&self.node_name).map(|n| (*n).clone())
    }
}
