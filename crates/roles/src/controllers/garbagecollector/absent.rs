//! Owners that are known to be gone. A UID never comes back, so an absence that the API server confirmed stays true.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::model::Kind;

/// Losing one costs a question.
const ABSENT_MAX: usize = 4096;

/// Where a reference points to, and whom it means there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub kind: Arc<Kind>,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Default)]
pub(super) struct Absent(Mutex<BTreeSet<Place>>);

impl Absent {
    pub fn contains(&self, place: &Place) -> bool {
        self.lock().contains(place)
    }

    pub fn note(&self, place: Place) {
        let mut absent = self.lock();
        if absent.len() >= ABSENT_MAX {
            absent.pop_first();
        }
        absent.insert(place);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
