//! Writes under way, and which of them the feed has seen land.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ids of writes, unique among all servers, and what is known of those under way.
pub struct Awaited {
    server: u64,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The revision at which a write landed, once it was seen.
    writes: HashMap<String, Option<u64>>,
    /// How often the feed missed events and started over.
    gaps: u64,
}

/// One write under way; forgotten when dropped.
pub struct Ticket {
    pub id: String,
    gaps: u64,
    awaited: Arc<Awaited>,
}

/// What the feed knows of a write, up to where it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    Landed(u64),
    /// The feed saw everything and this write was not there.
    Not,
    /// The feed missed something meanwhile.
    Perhaps,
}

impl Awaited {
    pub fn new(server: u64) -> Self {
        Self { server, next: AtomicU64::new(0), state: Mutex::default() }
    }

    pub fn begin(self: &Arc<Self>) -> Ticket {
        let id = format!("{:016x}-{}", self.server, self.next.fetch_add(1, Ordering::Relaxed));
        let mut state = self.lock();
        state.writes.insert(id.clone(), None);
        Ticket { id, gaps: state.gaps, awaited: self.clone() }
    }

    /// Called by the feed before it makes the write visible.
    pub fn saw(&self, id: &str, revision: u64) {
        if let Some(seen) = self.lock().writes.get_mut(id) {
            *seen = Some(revision);
        }
    }

    pub fn missed(&self) {
        self.lock().gaps += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub fn seen(&self) -> Seen {
        let state = self.awaited.lock();
        match state.writes.get(&self.id) {
            Some(Some(revision)) => Seen::Landed(*revision),
            _ if state.gaps != self.gaps => Seen::Perhaps,
            _ => Seen::Not,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.awaited.lock().writes.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_recognised_by_its_id() {
        let awaited = Arc::new(Awaited::new(7));
        let (a, b) = (awaited.begin(), awaited.begin());
        assert_ne!(a.id, b.id);
        awaited.saw(&a.id, 12);
        awaited.saw("somebody else's", 13);
        assert_eq!((a.seen(), b.seen()), (Seen::Landed(12), Seen::Not));
        awaited.missed();
        assert_eq!((a.seen(), b.seen()), (Seen::Landed(12), Seen::Perhaps));
        assert_eq!(awaited.begin().seen(), Seen::Not);
        drop((a, b));
        assert!(awaited.lock().writes.is_empty());
    }
}
