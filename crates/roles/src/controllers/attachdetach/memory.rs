//! What a restart may lose: timers, events already told, the last words of gone nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::measure::Operation;
use super::model::OnNode;

/// What is remembered of a volume on a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    /// By the clock that only counts: a step of the wall clock must not detach anything.
    pub(super) unwanted_since: Option<Duration>,
    pub(super) told_waiting: bool,
    pub(super) tell_attached: bool,
    pub(super) told_error: Option<String>,
}

#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    /// By volume, then node.
    notes: BTreeMap<String, BTreeMap<String, Note>>,
    /// Volumes in use on nodes when they were deleted.
    departed: BTreeMap<String, BTreeSet<String>>,
    /// What is under way on VolumeAttachments, by name, and since when.
    operations: BTreeMap<String, (Operation, Duration)>,
}

impl Memory {
    pub(super) fn noted(&self, volume: &str, node: &str) -> Note {
        let state = self.lock();
        state.notes.get(volume).and_then(|nodes| nodes.get(node)).cloned().unwrap_or_default()
    }

    pub(super) fn change(&self, volume: &str, node: &str, change: impl FnOnce(&mut Note)) {
        let mut state = self.lock();
        change(state.notes.entry(volume.to_owned()).or_default().entry(node.to_owned()).or_default());
    }

    /// Keeps notes only for these nodes of a volume; of all, or of the one that was looked at. What pods were told does
    /// not count for those that come after them.
    pub(super) fn keep(&self, volume: &str, only: Option<&str>, nodes: &BTreeMap<String, OnNode>) {
        let mut state = self.lock();
        if let Some(notes) = state.notes.get_mut(volume) {
            let looked_at = |node: &str| only.is_none_or(|only| only == node);
            notes.retain(|node, _| !looked_at(node) || nodes.contains_key(node));
            for (_, note) in
                notes.iter_mut().filter(|(n, _)| nodes.get(*n).is_some_and(|on| on.pods.is_empty()))
            {
                (note.told_waiting, note.tell_attached) = (false, false);
            }
            if notes.is_empty() {
                state.notes.remove(volume);
            }
        }
    }

    pub(super) fn departed(&self, node: &str, in_use: &[String]) {
        self.lock().departed.insert(node.to_owned(), in_use.iter().cloned().collect());
    }

    /// The node is there again, or nothing is attached to it any more.
    pub(super) fn forget_departed(&self, node: &str) {
        self.lock().departed.remove(node);
    }

    /// Whether a gone node may have a volume mounted. One that we never saw may have anything.
    pub(super) fn in_use_when_gone(&self, node: &str, volume: &str) -> bool {
        self.lock().departed.get(node).is_none_or(|in_use| in_use.contains(volume))
    }

    pub(super) fn begins(&self, attachment: &str, operation: Operation, now: Duration) {
        self.lock().operations.insert(attachment.to_owned(), (operation, now));
    }

    pub(super) fn operation(&self, attachment: &str) -> Option<(Operation, Duration)> {
        self.lock().operations.get(attachment).copied()
    }

    pub(super) fn ended(&self, attachment: &str) -> Option<(Operation, Duration)> {
        self.lock().operations.remove(attachment)
    }

    /// How many volumes and how many deleted nodes are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let state = self.lock();
        (state.notes.len(), state.departed.len())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
