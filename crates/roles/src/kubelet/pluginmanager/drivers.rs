//! The table of drivers that can be called on this node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_machinery::csi;

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

/// A driver that has registered.
#[derive(Clone)]
pub struct Registered {
    pub name: String,
    pub version: Version,
    pub connection: csi::Driver,
    pub capabilities: Capabilities,
}

type Handler = Box<dyn Fn(&str) + Send + Sync>;

/// The table; clones share it.
#[derive(Clone, Default)]
pub struct Drivers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    table: Mutex<BTreeMap<String, Registered>>,
    handlers: Mutex<Vec<Handler>>,
}

impl Drivers {
    pub fn get(&self, name: &str) -> Option<Registered> {
        self.table().get(name).cloned()
    }

    /// Calls `handler` with the name of a driver whenever it comes or goes.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.handlers().push(Box::new(handler));
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
        self.handlers().iter().for_each(|handler| handler(name));
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Registered>> {
        self.inner.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler>> {
        self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
