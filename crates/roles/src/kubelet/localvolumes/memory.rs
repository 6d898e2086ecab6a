//! What this process knows about the volumes of pods, by pod and name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_machinery::listeners::Listeners;

use super::model::{Presence, State};
use super::plan::Plugin;

/// Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By the UID of the pod, then by the name of the volume.
    pods: Mutex<BTreeMap<String, BTreeMap<String, State>>>,
    listeners: Listeners<str>,
}

impl Memory {
    pub fn get(&self, uid: &str, name: &str) -> Option<State> {
        self.pods().get(uid)?.get(name).cloned()
    }

    /// Names of the volumes of a pod that are here, or may be.
    pub fn of_pod(&self, uid: &str) -> Vec<String> {
        self.pods().get(uid).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Whether a pod's end waits for one of its volumes.
    pub fn holds(&self, uid: &str) -> bool {
        self.pods().get(uid).is_some_and(|volumes| volumes.values().any(State::holds_pod))
    }

    pub fn uids(&self) -> Vec<String> {
        self.pods().keys().cloned().collect()
    }

    /// Whether any volume is mounted, or may be.
    pub fn any_mounted(&self) -> bool {
        self.pods().values().flat_map(BTreeMap::values).any(|state| state.mount != Presence::Absent)
    }

    /// A volume that an earlier process left.
    pub fn found(&self, uid: &str, name: &str, plugin: Plugin) {
        self.insert(uid, name, State::new(plugin, Presence::Uncertain));
    }

    /// A volume that is about to be made: from now on something of its pod may be here.
    pub fn expect(&self, uid: &str, name: &str, plugin: Plugin) {
        self.insert(uid, name, State::new(plugin, Presence::Absent));
    }

    fn insert(&self, uid: &str, name: &str, state: State) {
        self.pods().entry(uid.to_owned()).or_default().insert(name.to_owned(), state);
    }

    /// Changes what is known about a volume, and tells those who wait for it.
    pub fn update(&self, uid: &str, name: &str, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.pods().get_mut(uid).and_then(|volumes| volumes.get_mut(name)) {
            change(state);
        }
        self.changed(uid);
    }

    pub fn forget(&self, uid: &str, name: &str) {
        {
            let mut pods = self.pods();
            if let Some(volumes) = pods.get_mut(uid) {
                volumes.remove(name);
                if volumes.is_empty() {
                    pods.remove(uid);
                }
            }
        }
        self.changed(uid);
    }

    /// Calls `handler` with the UID of a pod whenever one of its volumes changes.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    fn changed(&self, uid: &str) {
        self.inner.listeners.tell(uid);
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, State>>> {
        self.inner.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
