//! The table of drivers that can be called on this node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::csi::{self, Classes};
use bowline_machinery::effect::{EffectError, Effects, Fate};
use bowline_machinery::listeners::Listeners;
use bowline_proto::csi::v1::NodeGetCapabilitiesRequest;
use bowline_proto::csi::v1::node_service_capability::{self, rpc};

use super::version::Version;

/// What a driver's node service can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    pub stage_unstage: bool,
    pub single_node_multi_writer: bool,
    pub volume_mount_group: bool,
    pub get_volume_stats: bool,
    pub expand: bool,
}

impl Capabilities {
    /// NodeGetCapabilities.
    pub async fn ask(effects: &Effects, driver: &csi::Driver, name: &str) -> Result<Self, EffectError> {
        let what = format!("driver {name}");
        let send = |request| async { driver.node().node_get_capabilities(request).await };
        let (rpc, request) = ("NodeGetCapabilities", NodeGetCapabilitiesRequest {});
        let answer = csi::call(effects, rpc, &what, TIMEOUT, Classes::Default, request, send).await?;
        let kind = |node_service_capability::Type::Rpc(rpc)| rpc.r#type;
        let able: Vec<i32> = answer.capabilities.into_iter().filter_map(|c| c.r#type.map(kind)).collect();
        let can = |capability: rpc::Type| able.contains(&(capability as i32));
        Ok(Self {
            stage_unstage: can(rpc::Type::StageUnstageVolume),
            single_node_multi_writer: can(rpc::Type::SingleNodeMultiWriter),
            volume_mount_group: can(rpc::Type::VolumeMountGroup),
            get_volume_stats: can(rpc::Type::GetVolumeStats),
            expand: can(rpc::Type::ExpandVolume),
        })
    }
}

/// A driver that has registered.
#[derive(Clone)]
pub struct Registered {
    pub name: String,
    pub version: Version,
    pub connection: csi::Driver,
    pub capabilities: Capabilities,
    /// How often the connection had been lost when they were asked for.
    pub asked: Option<u64>,
}

/// What was decided on has changed: it is decided again.
const CONFLICT: i32 = 409;

/// Limit of each question to a driver.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// The table; clones share it.
#[derive(Clone, Default)]
pub struct Drivers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    table: Mutex<BTreeMap<String, Registered>>,
    listeners: Listeners<str>,
    refreshes: Listeners<str>,
}

impl Drivers {
    pub fn get(&self, name: &str) -> Option<Registered> {
        self.table().get(name).cloned()
    }

    /// The driver with what the process that answers now can do: its connection may lead to another one than when it
    /// registered. An error when that differs from what the table said, for a decision that was made on it.
    pub async fn current(&self, effects: &Effects, found: Registered) -> Result<Registered, EffectError> {
        if found.asked.is_some() && found.asked == found.connection.losses() {
            return Ok(found);
        }
        let capabilities = Capabilities::ask(effects, &found.connection, &found.name).await?;
        let now = Registered { capabilities, asked: found.connection.losses(), ..found.clone() };
        if let Some(entry) = self.table().get_mut(&found.name) {
            (entry.capabilities, entry.asked) = (now.capabilities, now.asked);
        }
        if now.capabilities != found.capabilities {
            tracing::info!(driver = found.name, "the driver was replaced by one with other capabilities");
            self.changed(&found.name);
            let text = format!("driver {} was replaced by one with other capabilities", found.name);
            return Err(EffectError { fate: Fate::Refused, code: CONFLICT, message: text });
        }
        Ok(now)
    }

    /// Calls `handler` with the name of a driver whenever it comes or goes.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    /// Asks the driver at once how many volumes can be attached here: an attach has failed for want of room.
    pub fn refresh(&self, name: &str) {
        self.inner.refreshes.tell(name);
    }

    pub(super) fn on_refresh(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.refreshes.add(handler);
    }

    pub(super) fn insert(&self, driver: Registered) {
        let name = driver.name.clone();
        self.table().insert(name.clone(), driver);
        self.changed(&name);
    }

    pub(super) fn remove(&self, name: &str) {
        if self.table().remove(name).is_some() {
            self.changed(name);
        }
    }

    fn changed(&self, name: &str) {
        self.inner.listeners.tell(name);
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Registered>> {
        self.inner.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
