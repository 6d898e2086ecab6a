//! What this process knows of its own calls. Losing it costs a repeated call: what is open is stored as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::{Meta, ObjectKey, PersistentVolume};

use super::decide::source::{cloned_from, restored_from};
use super::model::{Attempt, Bidding, Stored, Unusable};

/// What this node knows before it asks for a claim.
#[derive(Debug, Clone)]
pub(super) struct Bid {
    /// At which uptime.
    pub(super) due: Duration,
    pub(super) room: bool,
}

/// One claim's calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) stored: Option<Stored>,
    pub(super) open: bool,
    pub(super) unsaved: Option<Arc<PersistentVolume>>,
    pub(super) unusable: Option<Unusable>,
    pub(super) refused: Option<String>,
    pub(super) exhausted: Option<String>,
    /// Until which uptime, and for which class, the request counts as invalid.
    pub(super) slow: Option<(Duration, String)>,
    pub(super) told_populator: bool,
    /// When this node asks for the claim, and whether it has room.
    pub(super) bid: Option<Bid>,
    /// How often another writer was faster.
    pub(super) lost_bids: u32,
    /// The last failure was that the Lease could not be removed.
    pub(super) unremoved: bool,
}

impl Record {
    pub(super) fn attempt(&self, now: Duration, class_uid: Option<&str>) -> Attempt {
        let slow = |(until, uid): &(Duration, String)| now < *until && class_uid == Some(uid);
        Attempt {
            stored: self.stored.clone(),
            open: self.open,
            unsaved: self.unsaved.clone(),
            unusable: self.unusable.clone(),
            refused: self.refused.clone(),
            exhausted: self.exhausted.clone(),
            slow: self.slow.as_ref().is_some_and(slow),
            told_populator: self.told_populator,
            bidding: match &self.bid {
                Some(bid) if bid.room => Bidding::Room,
                Some(bid) if bid.due <= now => Bidding::Due,
                Some(_) | None => Bidding::Waiting,
            },
        }
    }
}

#[derive(Default)]
pub(super) struct Memory {
    claims: Mutex<BTreeMap<String, Record>>,
    /// Volumes whose DeleteVolume succeeded: name → UID.
    deleted: Mutex<BTreeMap<String, String>>,
    /// Whether what earlier processes stored was read.
    intents_read: AtomicBool,
    unprotected: AtomicBool,
    handed_on: AtomicBool,
}

impl Memory {
    pub(super) fn claim(&self, uid: &str) -> Record {
        lock(&self.claims).get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn change(&self, uid: &str, change: impl FnOnce(&mut Record)) {
        change(lock(&self.claims).entry(uid.to_owned()).or_default());
    }

    /// Takes over what another process stored. Whether it was sent is not known.
    pub(super) fn adopt(&self, stored: Stored) {
        let mut claims = lock(&self.claims);
        let record = claims.entry(stored.intent.claim.uid().to_owned()).or_default();
        if record.stored.is_none() {
            (record.stored, record.open) = (Some(stored), true);
        }
    }

    /// How things stood when an attempt failed. People are told of it now, so that a refusal is not told again.
    pub(super) fn note_failure(&self, uid: &str) -> Record {
        let record = self.claim(uid);
        self.change(uid, |now| {
            now.unremoved = false;
            now.refused = now.refused.take().filter(|_| now.stored.is_some());
        });
        record
    }

    /// What was stored for a claim has been removed.
    pub(super) fn unstored(&self, uid: &str) {
        self.change(uid, |record| (record.stored, record.open) = (None, false));
    }

    /// A claim whose call may still copy from this one.
    pub(super) fn clone_of(&self, source: &ObjectKey) -> Option<String> {
        let claims = lock(&self.claims);
        let stored = claims.values().filter_map(|record| record.stored.as_ref());
        let mut clones = stored.filter(|stored| cloned_from(&stored.intent.claim).as_ref() == Some(source));
        clones.next().map(|stored| stored.intent.claim.name().to_owned())
    }

    /// A claim whose call may still copy from this snapshot.
    pub(super) fn restore_of(&self, source: &ObjectKey) -> Option<String> {
        let claims = lock(&self.claims);
        let stored = claims.values().filter_map(|record| record.stored.as_ref());
        let mut restores =
            stored.filter(|stored| restored_from(&stored.intent.claim).as_ref() == Some(source));
        restores.next().map(|stored| stored.intent.claim.name().to_owned())
    }

    /// Whether snapshots get a finalizer.
    pub(super) fn may_protect(&self) -> bool {
        !self.unprotected.load(Ordering::Relaxed)
    }

    /// This process may not update snapshots. Says whether that was new.
    pub(super) fn note_unprotected(&self) -> bool {
        !self.unprotected.swap(true, Ordering::Relaxed)
    }

    /// Whether the snapshots of this pass were handed on.
    pub(super) fn handed_on(&self) -> bool {
        self.handed_on.load(Ordering::Relaxed)
    }

    pub(super) fn note_handed_on(&self, handed_on: bool) {
        self.handed_on.store(handed_on, Ordering::Relaxed);
    }

    pub(super) fn intents_read(&self) -> bool {
        self.intents_read.load(Ordering::Relaxed)
    }

    /// Whether that was new.
    pub(super) fn note_intents_read(&self) -> bool {
        !self.intents_read.swap(true, Ordering::Relaxed)
    }

    pub(super) fn forget_claim(&self, uid: &str) {
        lock(&self.claims).remove(uid);
    }

    pub(super) fn deleted(&self, volume: &PersistentVolume) -> bool {
        lock(&self.deleted).get(volume.name()).is_some_and(|uid| uid == volume.uid())
    }

    pub(super) fn note_deleted(&self, volume: &PersistentVolume) {
        lock(&self.deleted).insert(volume.name().to_owned(), volume.uid().to_owned());
    }

    pub(super) fn forget_volume(&self, name: &str) {
        lock(&self.deleted).remove(name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
