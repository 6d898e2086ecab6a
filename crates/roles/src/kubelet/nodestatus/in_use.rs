//! The volumes that this node wants or may still have: `node.status.volumesInUse`, and how far the API knows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_machinery::listeners::Listeners;

type Names = BTreeSet<String>;

/// Filled by whoever mounts, published by whoever writes the node status; clones share it.
#[derive(Clone, Default)]
pub struct InUse {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    wanted: Listeners<()>,
    accepted: Listeners<str>,
}

#[derive(Default)]
struct State {
    complete: bool,
    wanted: Names,
    accepted: Names,
}

impl InUse {
    pub fn insert(&self, name: &str) {
        if self.state().wanted.insert(name.into()) {
            self.wanted_changed();
        }
    }

    /// The volume is unmounted here. From now on it does not count as reported, whatever the API still says.
    pub fn remove(&self, name: &str) {
        let removed = {
            let mut state = self.state();
            state.accepted.remove(name);
            state.wanted.remove(name)
        };
        if removed {
            self.wanted_changed();
        }
    }

    pub fn any(&self) -> bool {
        !self.state().wanted.is_empty()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.state().wanted.contains(name)
    }

    /// Whether the API server has taken a list with this volume, and none without it is on its way.
    pub fn accepted(&self, name: &str) -> bool {
        self.state().accepted.contains(name)
    }

    /// Everything that an earlier process left is in: from now on the list may also shrink.
    pub fn complete(&self) {
        self.state().complete = true;
        self.wanted_changed();
    }

    /// Calls `handler` with each volume that has newly been accepted.
    pub fn on_accepted(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.accepted.add(handler);
    }

    /// Calls `handler` whenever the list changes.
    pub fn on_wanted(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.inner.wanted.add(move |()| handler());
    }

    /// What to publish and what is accepted; `None` while the list is incomplete.
    pub(super) fn lists(&self) -> Option<(Names, Names)> {
        let state = self.state();
        state.complete.then(|| (state.wanted.clone(), state.accepted.clone()))
    }

    /// A write of `list` begins: what it lacks is no longer safely reported.
    pub(super) fn sending(&self, list: &Names) {
        self.state().accepted.retain(|name| list.contains(name));
    }

    /// The API server has `list`.
    pub(super) fn sent(&self, list: &Names) {
        let fresh: Vec<String> = {
            let mut state = self.state();
            // What was given up while the write was under way stays given up.
            let fresh = list.iter().filter(|n| !state.accepted.contains(*n) && state.wanted.contains(*n));
            let fresh: Vec<String> = fresh.cloned().collect();
            state.accepted.extend(fresh.iter().cloned());
            fresh
        };
        fresh.iter().for_each(|name| self.inner.accepted.tell(name));
    }

    fn wanted_changed(&self) {
        self.inner.wanted.tell(&());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
