//! What the last looks found. Nothing here outlives the process: a start looks anew.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::judge::{Facts, Finding, judge};
use crate::id::VolumeId;

#[derive(Default)]
pub struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    /// Volumes that have a loop device, as far as anybody knows.
    attached: BTreeSet<VolumeId>,
    /// Only volumes with something adverse.
    findings: BTreeMap<VolumeId, Arc<[Finding]>>,
}

impl Memory {
    pub fn known(&self, id: &VolumeId) -> Vec<Finding> {
        self.lock().findings.get(id).map(|found| found.to_vec()).unwrap_or_default()
    }

    /// Every volume with something adverse.
    pub fn adverse(&self) -> BTreeMap<VolumeId, Arc<[Finding]>> {
        self.lock().findings.clone()
    }

    /// Up to `count` of them in id order after `last`, and whether more follow.
    pub fn page(&self, last: Option<&VolumeId>, count: usize) -> (Vec<(VolumeId, Arc<[Finding]>)>, bool) {
        let state = self.lock();
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = state.findings.range((start, Bound::Unbounded));
        let page = rest.by_ref().take(count).map(|(id, found)| (id.clone(), found.clone())).collect();
        (page, rest.next().is_some())
    }

    /// Takes over what a look saw, and says what that means.
    pub fn note(&self, id: &VolumeId, facts: &Facts) -> Vec<Finding> {
        let mut state = self.lock();
        let findings = judge(id, facts, state.attached.contains(id));
        if facts.attached {
            state.attached.insert(id.clone());
        }
        match findings.is_empty() {
            true => _ = state.findings.remove(id),
            false => _ = state.findings.insert(id.clone(), findings.as_slice().into()),
        }
        findings
    }

    /// The volume was unstaged, so its device may go.
    pub fn release(&self, id: &VolumeId) {
        self.lock().attached.remove(id);
    }

    /// The volume is gone.
    pub fn forget(&self, id: &VolumeId) {
        let mut state = self.lock();
        state.attached.remove(id);
        state.findings.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
