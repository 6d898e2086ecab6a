//! At most one operation per volume or snapshot at a time, and none on what cannot be used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::VolumeError;
use crate::id::Key;

/// What operations are working on: how many share it, or none if one has it alone.
#[derive(Clone, Default)]
pub struct InFlight {
    state: Arc<Mutex<State>>,
    barred: Arc<BTreeMap<Key, String>>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Key, Sharers>,
    /// Those who look on, by number: at what, and whether an operation has begun there since.
    watching: BTreeMap<u64, (Key, bool)>,
    next: u64,
}

/// Zero stands for one that has it alone.
type Sharers = usize;

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
    /// Nothing enters what is barred, for the reason given, but to take it down.
    pub fn barring(barred: BTreeMap<Key, String>) -> Self {
        Self { barred: Arc::new(barred), ..Self::default() }
    }

    /// Enters all of them or none. Waiting here instead would let a caller's retries pile up behind one slow
    /// mkfs, and two operations that each hold what the other wants would wait for ever.
    ///
    /// Has some things alone and others together with whoever only shares them, too: ten volumes may be made
    /// from one snapshot at a time, but it is not deleted meanwhile.
    pub fn enter(&self, alone: Vec<Key>, shared: Vec<Key>) -> Result<Guard, VolumeError> {
        let mut all = alone.iter().chain(&shared);
        if let Some((what, why)) = all.find_map(|key| self.barred.get_key_value(key)) {
            return Err(VolumeError::Quarantined { what: what.clone(), why: why.clone() });
        }
        self.take(alone, shared)
    }

    /// Enters to take down what a workload has, which is possible for what is barred, too.
    pub fn enter_teardown(&self, alone: Key) -> Result<Guard, VolumeError> {
        self.take(vec![alone], Vec::new())
    }

    fn take(&self, alone: Vec<Key>, shared: Vec<Key>) -> Result<Guard, VolumeError> {
        let busy = self.with(|state| {
            let taken = alone.iter().find(|key| state.held.contains_key(key));
            let kept = shared.iter().find(|key| state.held.get(key) == Some(&0));
            let busy = taken.or(kept).cloned();
            if busy.is_none() {
                let concerned = state.watching.values_mut().filter(|(key, _)| alone.contains(key));
                concerned.for_each(|(_, disturbed)| *disturbed = true);
                state.held.extend(alone.iter().map(|key| (key.clone(), 0)));
                shared.iter().for_each(|key| *state.held.entry(key.clone()).or_default() += 1);
            }
            busy
        });
        let keys = alone.into_iter().chain(shared).collect();
        busy.map_or_else(|| Ok(Guard { keys, all: self.clone() }), |what| Err(VolumeError::Busy { what }))
    }

    /// Begins to look at a thing; nothing while an operation works on it, since what is seen then is half done.
    pub fn watch(&self, key: Key) -> Option<Watch> {
        self.with(|state| {
            if state.held.get(&key) == Some(&0) {
                return None;
            }
            let number = state.next;
            state.next += 1;
            state.watching.insert(number, (key, false));
            Some(Watch { number, all: self.clone() })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
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
        self.all.with(|state| {
            for key in &self.keys {
                match state.held.get_mut(key) {
                    Some(sharers) if *sharers > 1 => *sharers -= 1,
                    _ => _ = state.held.remove(key),
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
        let first = all.enter(vec![key("a")], Vec::new()).expect("free");
        assert!(matches!(all.enter(vec![key("a")], Vec::new()), Err(VolumeError::Busy { .. })));
        let _other = all.enter(vec![key("b")], Vec::new()).expect("another volume is free");
        let _same_name =
            all.enter(vec![SnapshotId::for_name("a").key()], Vec::new()).expect("a snapshot is no volume");
        drop(first);
        all.enter(vec![key("a")], Vec::new()).expect("free again");
    }

    #[test]
    fn what_is_barred_stays_alone() {
        let key = |name: &str| VolumeId::for_name(name).key();
        let all = InFlight::barring([(key("a"), "spoilt".to_owned())].into());
        let refused = all.enter(vec![key("b"), key("a")], Vec::new()).err().expect("barred");
        assert_eq!(
            refused.to_string(),
            "volume `a` cannot be used: spoilt; see `bowline driver local check`"
        );
        let _b = all.enter(vec![key("b")], Vec::new()).expect("nothing stays held after a refusal");
        all.enter(vec![SnapshotId::for_name("a").key()], Vec::new()).expect("a snapshot is no volume");
    }

    #[test]
    fn all_or_none() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let held = all.enter(vec![key("b")], Vec::new()).expect("free");
        assert!(all.enter(vec![key("a"), key("b")], Vec::new()).is_err());
        let _a = all.enter(vec![key("a")], Vec::new()).expect("nothing stays held after a refusal");
        drop(held);
        all.enter(vec![key("b")], Vec::new()).expect("free again");
    }

    #[test]
    fn shared_is_not_alone() {
        let all = InFlight::default();
        let key = |name: &str| vec![SnapshotId::for_name(name).key()];
        let first = all.enter(key("a"), key("s")).expect("free");
        let second = all.enter(key("b"), key("s")).expect("shared");
        assert!(all.enter(key("s"), Vec::new()).is_err(), "two have it");
        drop(first);
        assert!(all.enter(key("s"), Vec::new()).is_err(), "one still has it");
        drop(second);
        let alone = all.enter(key("s"), Vec::new()).expect("nobody has it");
        assert!(all.enter(key("c"), key("s")).is_err(), "had alone");
        let _c = all.enter(key("c"), Vec::new()).expect("nothing stays held after a refusal");
        drop(alone);
        all.enter(Vec::new(), key("s")).expect("free again");
    }

    #[test]
    fn looking_neither_hinders_nor_trusts_operations() {
        let all = InFlight::default();
        let key = |name: &str| VolumeId::for_name(name).key();
        let calm = all.watch(key("a")).expect("nobody works on it");
        let disturbed = all.watch(key("b")).expect("nobody works on it");
        let held = all.enter(vec![key("b")], Vec::new()).expect("looking hinders nobody");
        assert!(all.watch(key("b")).is_none(), "what is being worked on is half done");
        drop(held);
        assert_eq!(calm.undisturbed(|| 1), Some(1));
        assert_eq!(disturbed.undisturbed(|| 1), None, "even when the operation is over");
        drop((calm, disturbed));
        assert_eq!(all.with(|state| state.watching.len()), 0);
    }
}
