//! Volumes that a claim of this process is about to take, so that its neighbours choose others.
//!
//! Without this, all claims that wait for a new volume would try to reserve the same one, and all but one in vain.
//! It is only courtesy: the resourceVersion decides who gets a volume, and losing this with the process costs nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_api::ObjectKey;

/// Volume to the claim that is taking it; clones share it.
#[derive(Clone, Default)]
pub(super) struct Promises {
    taking: Arc<Mutex<BTreeMap<String, ObjectKey>>>,
}

/// Held while a claim takes a volume.
pub(super) struct Promise {
    of: Promises,
    volume: String,
}

impl Promises {
    /// Promises a volume to a claim, unless another is taking it.
    pub fn make(&self, volume: &str, claim: &ObjectKey) -> Option<Promise> {
        let mut taking = self.lock();
        if taking.contains_key(volume) {
            return None;
        }
        taking.insert(volume.to_owned(), claim.clone());
        Some(Promise { of: self.clone(), volume: volume.to_owned() })
    }

    /// Whether a claim other than this one is taking the volume.
    pub fn to_another(&self, volume: &str, claim: &ObjectKey) -> bool {
        self.lock().get(volume).is_some_and(|taker| taker != claim)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ObjectKey>> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.of.lock().remove(&self.volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_promised_to_one_claim_until_it_has_it() {
        let (promises, a, b) = (Promises::default(), ObjectKey::new("n", "a"), ObjectKey::new("n", "b"));
        let held = promises.make("v", &a);
        assert!(held.is_some() && promises.make("v", &b).is_none());
        assert!(promises.to_another("v", &b) && !promises.to_another("v", &a));
        drop(held);
        assert!(promises.make("v", &b).is_some());
    }
}
