//! At most one operation per volume or snapshot at a time, and none on what cannot be used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::VolumeError;
use crate::id::Key;

/// What operations are working on: how many share it, or none if one has it alone.
#[derive(Clone, Default)]
pub struct InFlight {
    held: Arc<Mutex<BTreeMap<Key, Sharers>>>,
    barred: Arc<BTreeMap<Key, String>>,
}

/// Zero stands for one that has it alone.
type Sharers = usize;

/// Permission to work on some things, given back when dropped.
pub struct Guard {
    keys: Vec<Key>,
    all: InFlight,
}

impl InFlight {
    /// Nothing ever enters what is barred, for the reason given.
    pub fn barring(barred: BTreeMap<Key, String>) -> Self {
        Self { barred: Arc::new(barred), ..Self::default() }
    }

    /// Enters all of them or none. Waiting here instead would let a caller's retries pile up behind one slow
    /// mkfs, and two operations that each hold what the other wants would wait for ever.
    pub fn enter(&self, keys: Vec<Key>) -> Result<Guard, VolumeError> {
        self.enter_sharing(keys, Vec::new())
    }

    /// Has some things alone and others together with whoever only shares them, too: ten volumes may be made
    /// from one snapshot at a time, but it is not deleted meanwhile.
    pub fn enter_sharing(&self, alone: Vec<Key>, shared: Vec<Key>) -> Result<Guard, VolumeError> {
        let mut all = alone.iter().chain(&shared);
        if let Some((what, why)) = all.find_map(|key| self.barred.get_key_value(key)) {
            return Err(VolumeError::Quarantined { what: what.clone(), why: why.clone() });
        }
        let busy = self.with(|held| {
            let taken = alone.iter().find(|key| held.contains_key(key));
            let kept = shared.iter().find(|key| held.get(key) == Some(&0));
            let busy = taken.or(kept).cloned();
            if busy.is_none() {
                held.extend(alone.iter().map(|key| (key.clone(), 0)));
                shared.iter().for_each(|key| *held.entry(key.clone()).or_default() += 1);
            }
            busy
        });
        let keys = alone.into_iter().chain(shared).collect();
        busy.map_or_else(|| Ok(Guard { keys, all: self.clone() }), |what| Err(VolumeError::Busy { what }))
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<Key, Sharers>) -> T) -> T {
        change(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.with(|held| {
            for key in &self.keys {
                match held.get_mut(key) {
                    Some(sharers) if *sharers > 1 => *sharers -= 1,
                    _ => _ = held.remove(key),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{SnapshotId, VolumeId};

    #[test]
    fn one_at_a_time_per_thing() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let first = all.enter(vec![key("a")]).expect("free");
        assert!(matches!(all.enter(vec![key("a")]), Err(VolumeError::Busy { .. })));
        let _other = all.enter(vec![key("b")]).expect("another volume is free");
        let _same_name = all.enter(vec![SnapshotId::for_name("a").key()]).expect("a snapshot is no volume");
        drop(first);
        all.enter(vec![key("a")]).expect("free again");
    }

    #[test]
    fn what_is_barred_stays_alone() {
        let key = |name: &str| VolumeId::for_name(name).key();
        let all = InFlight::barring([(key("a"), "spoilt".to_owned())].into());
        let refused = all.enter(vec![key("b"), key("a")]).err().expect("barred");
        assert_eq!(
            refused.to_string(),
            "volume `a` cannot be used: spoilt; see `bowline driver local check`"
        );
        let _b = all.enter(vec![key("b")]).expect("nothing stays held after a refusal");
        all.enter(vec![SnapshotId::for_name("a").key()]).expect("a snapshot is no volume");
    }

    #[test]
    fn all_or_none() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let held = all.enter(vec![key("b")]).expect("free");
        assert!(all.enter(vec![key("a"), key("b")]).is_err());
        let _a = all.enter(vec![key("a")]).expect("nothing stays held after a refusal");
        drop(held);
        all.enter(vec![key("b")]).expect("free again");
    }

    #[test]
    fn shared_is_not_alone() {
        let all = InFlight::default();
        let key = |name: &str| vec![SnapshotId::for_name(name).key()];
        let first = all.enter_sharing(key("a"), key("s")).expect("free");
        let second = all.enter_sharing(key("b"), key("s")).expect("shared");
        assert!(all.enter(key("s")).is_err(), "two have it");
        drop(first);
        assert!(all.enter(key("s")).is_err(), "one still has it");
        drop(second);
        let alone = all.enter(key("s")).expect("nobody has it");
        assert!(all.enter_sharing(key("c"), key("s")).is_err(), "had alone");
        let _c = all.enter(key("c")).expect("nothing stays held after a refusal");
        drop(alone);
        all.enter_sharing(Vec::new(), key("s")).expect("free again");
    }
}
