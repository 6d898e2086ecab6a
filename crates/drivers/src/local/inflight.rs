//! At most one operation per volume at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::VolumeError;
use super::id::VolumeId;

/// The volumes that an operation is working on.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<BTreeSet<VolumeId>>>);

/// Permission to work on one volume, given back when dropped.
pub struct Guard {
    id: VolumeId,
    all: InFlight,
}

impl InFlight {
    /// Waiting here instead would let a caller's retries pile up behind one slow mkfs.
    pub fn enter(&self, id: &VolumeId) -> Result<Guard, VolumeError> {
        if self.with(|ids| ids.insert(id.clone())) {
            Ok(Guard { id: id.clone(), all: self.clone() })
        } else {
            Err(VolumeError::Busy { id: id.clone() })
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeSet<VolumeId>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.with(|ids| ids.remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_per_volume() {
        let all = InFlight::default();
        let (a, b) = (VolumeId::for_name("a"), VolumeId::for_name("b"));
        let first = all.enter(&a).expect("free");
        assert!(matches!(all.enter(&a), Err(VolumeError::Busy { .. })));
        let _other = all.enter(&b).expect("another volume is free");
        drop(first);
        all.enter(&a).expect("free again");
    }
}
