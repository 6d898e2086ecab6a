//! The records of a shelf in memory, with running counts, so that no question costs a walk over all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Record;
use super::verdict::Spoilt;
use crate::id::Id;

pub struct Ledger<K, R> {
    pub records: BTreeMap<Id<K>, Arc<R>>,
    /// Things that cannot be used, and why.
    pub quarantined: BTreeMap<Id<K>, Spoilt>,
    counts: BTreeMap<String, usize>,
    /// What all records promise. Wider than one record's bytes, so it never overflows.
    pub promised: u128,
}

impl<K, R> Default for Ledger<K, R> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), quarantined: BTreeMap::new(), counts: BTreeMap::new(), promised: 0 }
    }
}

impl<K: Ord + Clone, R: Record> Ledger<K, R> {
    pub fn insert(&mut self, id: Id<K>, record: R) {
        self.remove(&id);
        self.promised += u128::from(record.promised());
        for name in record.counted() {
            match self.counts.get_mut(name) {
                Some(count) => *count += 1,
                None => _ = self.counts.insert(name.to_owned(), 1),
            }
        }
        self.records.insert(id, Arc::new(record));
    }

    pub fn remove(&mut self, id: &Id<K>) {
        let Some(record) = self.records.remove(id) else { return };
        self.promised -= u128::from(record.promised());
        for name in record.counted() {
            match self.counts.get_mut(name) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = self.counts.remove(name),
            }
        }
    }

    pub fn count(&self, name: &str) -> usize {
        self.counts.get(name).copied().unwrap_or_default()
    }
}
