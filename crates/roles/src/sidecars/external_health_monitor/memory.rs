//! What a check has found and not told yet, and since when nodes are not ready. A restart loses it: the next check asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::model::{Condition, Reading};

#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether this period's list was asked for.
    listed: bool,
    /// By the name of the PersistentVolume.
    readings: BTreeMap<String, Reading>,
    /// Nodes that this process knows, and since when by uptime they are not ready.
    nodes: BTreeMap<String, Option<Duration>>,
    /// Nodes whose claims were told that they failed.
    failed: BTreeSet<String>,
}

impl Memory {
    pub(super) fn listed(&self) -> bool {
        self.lock().listed
    }

    pub(super) fn set_listed(&self, listed: bool) {
        self.lock().listed = listed;
    }

    pub(super) fn reading(&self, volume: &str) -> Reading {
        self.lock().readings.get(volume).cloned().unwrap_or_default()
    }

    pub(super) fn answered(&self, volume: &str, condition: Condition) {
        self.lock().readings.insert(volume.to_owned(), Reading::Fresh(condition));
    }

    pub(super) fn told(&self, volume: &str) {
        self.lock().readings.insert(volume.to_owned(), Reading::Told);
    }

    /// The next look at this volume is a new check.
    pub(super) fn forget_reading(&self, volume: &str) {
        self.lock().readings.remove(volume);
    }

    /// Notes a node, and since when it is not ready.
    pub(super) fn saw(&self, node: &str, ready: bool, now: Duration) {
        let mut state = self.lock();
        let since = state.nodes.entry(node.to_owned()).or_default();
        *since = if ready { None } else { since.or(Some(now)) };
    }

    pub(super) fn knows(&self, node: &str) -> bool {
        self.lock().nodes.contains_key(node)
    }

    pub(super) fn not_ready_since(&self, node: &str) -> Option<Duration> {
        self.lock().nodes.get(node).copied().flatten()
    }

    pub(super) fn is_failed(&self, node: &str) -> bool {
        self.lock().failed.contains(node)
    }

    /// Its claims were told; one that stays like this is told again after as long once more.
    pub(super) fn failed(&self, node: &str, now: Duration) {
        let mut state = self.lock();
        state.failed.insert(node.to_owned());
        if let Some(since @ Some(_)) = state.nodes.get_mut(node) {
            *since = Some(now);
        }
    }

    pub(super) fn recovered(&self, node: &str) {
        self.lock().failed.remove(node);
    }

    pub(super) fn forget_node(&self, node: &str) {
        let mut state = self.lock();
        state.nodes.remove(node);
        state.failed.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
