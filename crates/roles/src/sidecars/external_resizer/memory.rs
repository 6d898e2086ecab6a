//! What this process remembers of each claim. Losing it costs a repeated call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_api::{Meta, ObjectKey, PersistentVolumeClaim};

/// One record per claim that was worked on; a later claim of the same name begins with an empty one.
pub(super) struct Memory<R> {
    records: Mutex<BTreeMap<ObjectKey, (String, R)>>,
}

impl<R> Default for Memory<R> {
    fn default() -> Self {
        Self { records: Mutex::default() }
    }
}

impl<R: Clone + Default> Memory<R> {
    pub(super) fn claim(&self, claim: &PersistentVolumeClaim) -> R {
        let records = self.lock();
        let known = records.get(&claim.key()).filter(|(uid, _)| uid == claim.uid());
        known.map(|(_, record)| record.clone()).unwrap_or_default()
    }

    /// The record under this name, whichever claim has it now.
    pub(super) fn named(&self, key: &ObjectKey) -> Option<R> {
        self.lock().get(key).map(|(_, record)| record.clone())
    }

    pub(super) fn change(&self, claim: &PersistentVolumeClaim, change: impl FnOnce(&mut R)) {
        let mut records = self.lock();
        let (uid, record) = records.entry(claim.key()).or_default();
        if uid != claim.uid() {
            (*uid, *record) = (claim.uid().to_owned(), R::default());
        }
        change(record);
    }

    /// Changes what is there, and makes nothing.
    pub(super) fn change_named(&self, key: &ObjectKey, change: impl FnOnce(&mut R)) {
        if let Some((_, record)) = self.lock().get_mut(key) {
            change(record);
        }
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (String, R)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str) -> PersistentVolumeClaim {
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.name = Some("data".into());
        claim.metadata.uid = Some(uid.into());
        claim
    }

    #[test]
    fn a_later_claim_of_the_same_name_begins_empty() {
        let memory = Memory::<u32>::default();
        memory.change(&claim("1"), |record| *record = 7);
        assert_eq!((memory.claim(&claim("1")), memory.claim(&claim("2"))), (7, 0));
        memory.change(&claim("2"), |record| *record += 1);
        assert_eq!((memory.claim(&claim("1")), memory.claim(&claim("2"))), (0, 1));
        memory.forget(&claim("2").key());
        memory.change_named(&claim("2").key(), |record| *record = 9);
        assert_eq!(memory.named(&claim("2").key()), None);
    }
}
