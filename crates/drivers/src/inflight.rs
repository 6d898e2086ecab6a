//! At most one operation per volume or snapshot at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::VolumeError;
use crate::id::Key;

/// What operations are working on.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<BTreeSet<Key>>>);

/// Permission to work on some things, given back when dropped.
pub struct Guard {
    keys: Vec<Key>,
    all: InFlight,
}

impl InFlight {
    /// Enters all of them or none. Waiting here instead would let a caller's retries pile up behind one slow
    /// mkfs, and two operations that each hold what the other wants would wait for ever.
    pub fn enter(&self, keys: Vec<Key>) -> Result<Guard, VolumeError> {
        let busy = self.with(|held| match keys.iter().find(|key| held.contains(key)) {
            Some(busy) => Some(busy.clone()),
            None => {
                held.extend(keys.iter().cloned());
                None
            }
        });
        match busy {
            Some(what) => Err(VolumeError::Busy { what }),
            None => Ok(Guard { keys, all: self.clone() }),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeSet<Key>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.with(|held| held.retain(|key| !self.keys.contains(key)));
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
    fn all_or_none() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let held = all.enter(vec![key("b")]).expect("free");
        assert!(all.enter(vec![key("a"), key("b")]).is_err());
        let _a = all.enter(vec![key("a")]).expect("nothing stays held after a refusal");
        drop(held);
        all.enter(vec![key("b")]).expect("free again");
    }
}
