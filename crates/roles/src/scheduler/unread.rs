//! Pods whose binding was sent and not read back: until they are, no other pod is decided, or two could share what only one
//! may have.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_api::{ObjectKey, Pod};
use bowline_machinery::EffectError;

use super::role::Scheduler;

#[derive(Default)]
pub(super) struct Unread(Mutex<BTreeSet<ObjectKey>>);

impl Unread {
    pub fn add(&self, pod: ObjectKey) {
        self.lock().insert(pod);
    }

    fn next(&self) -> Option<ObjectKey> {
        self.lock().first().cloned()
    }

    fn done(&self, pod: &ObjectKey) {
        self.lock().remove(pod);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scheduler {
    /// Reads back what was bound, past the cache: the answer to a binding carries no pod, and may be lost.
    pub(super) async fn read_back(&self) -> Result<(), EffectError> {
        while let Some(key) = self.unread.next() {
            match self.effects.get_live::<Pod>(&key.namespace, &key.name).await? {
                Some(live) => self.pods.note(live),
                None => self.pods.get(&key).iter().for_each(|cached| self.pods.note_gone(cached)),
            }
            self.unread.done(&key);
        }
        Ok(())
    }
}
