//! At most one operation per volume or snapshot at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::VolumeError;
use crate::id::Key;

/// What operations are working on.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    held: BTreeSet<Key>,
    /// Those who look on, by number: at what, and whether an operation has begun there since.
    watching: BTreeMap<u64, (Key, bool)>,
    next: u64,
}

/// Permission to work on some things, given back when dropped.
pub struct Guard {
    keys: Vec<Key>,
    all: InFlight,
}

/// Somebody looks at a thing without keeping operations from it.
pub struct Watch {
    number: u64,
    all: InFlight,
}

impl InFlight {
    /// Enters all of them or none. Waiting here instead would let a caller's retries pile up behind one slow
    /// mkfs, and two operations that each hold what the other wants would wait for ever.
    pub fn enter(&self, keys: Vec<Key>) -> Result<Guard, VolumeError> {
        let busy = self.with(|state| match keys.iter().find(|key| state.held.contains(key)) {
            Some(busy) => Some(busy.clone()),
            None => {
                let concerned = state.watching.values_mut().filter(|(key, _)| keys.contains(key));
                concerned.for_each(|(_, disturbed)| *disturbed = true);
                state.held.extend(keys.iter().cloned());
                None
            }
        });
        match busy {
            Some(what) => Err(VolumeError::Busy { what }),
            None => Ok(Guard { keys, all: self.clone() }),
        }
    }

    /// Begins to look at a thing; nothing while an operation works on it, since what is seen then is half done.
    pub fn watch(&self, key: Key) -> Option<Watch> {
        self.with(|state| {
            if state.held.contains(&key) {
                return None;
            }
            let number = state.next;
            state.next += 1;
            state.watching.insert(number, (key, false));
            Some(Watch { number, all: self.clone() })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watch {
    /// Runs `then` if no operation has begun on the thing; none begins before it is through.
    pub fn undisturbed<T>(&self, then: impl FnOnce() -> T) -> Option<T> {
        self.all.with(|state| match state.watching.get(&self.number) {
            Some((_, false)) => Some(then()),
            Some((_, true)) | None => None,
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.all.with(|state| state.watching.remove(&self.number));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.with(|state| state.held.retain(|key| !self.keys.contains(key)));
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

    #[test]
    fn looking_neither_hinders_nor_trusts_operations() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let calm = all.watch(key("a")).expect("nobody works on it");
        let disturbed = all.watch(key("b")).expect("nobody works on it");
        let held = all.enter(vec![key("b")]).expect("looking hinders nobody");
        assert!(all.watch(key("b")).is_none(), "what is being worked on is half done");
        drop(held);
        assert_eq!(calm.undisturbed(|| 1), Some(1));
        assert_eq!(disturbed.undisturbed(|| 1), None, "even when the operation is over");
        drop((calm, disturbed));
        assert_eq!(all.with(|state| state.watching.len()), 0);
    }
}
