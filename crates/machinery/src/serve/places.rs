//! Room for connections. Ports are open to pods: they shall neither use up the file descriptors of the program nor keep others
//! from being answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Places for a number of connections; clones share them.
#[derive(Clone)]
pub struct Places {
    max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// Connections that have not shown yet what they are for, oldest first.
    silent: BTreeMap<u64, CancellationToken>,
    /// How many have.
    heard: usize,
}

/// The place of one connection, free again when it is dropped.
pub struct Place {
    number: u64,
    /// Cancelled when the place is needed for a newer connection.
    evicted: CancellationToken,
    heard: bool,
    places: Places,
}

impl Places {
    pub fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// A place. If all are taken, the connection that has been silent for the longest time loses its own; none if no
    /// connection is silent.
    pub fn take(&self) -> Option<Place> {
        let mut taken = self.taken();
        if taken.silent.len() + taken.heard >= self.max {
            let (_, oldest) = taken.silent.pop_first()?;
            oldest.cancel();
        }
        let (number, evicted) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.silent.insert(number, evicted.clone());
        Some(Place { number, evicted, heard: false, places: self.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The client has said what it wants: from now on the place is kept for it.
    pub fn keep(&mut self) {
        let mut taken = self.places.taken();
        if taken.silent.remove(&self.number).is_some() {
            taken.heard += 1;
            self.heard = true;
        }
    }

    /// Completes when the place is needed for a newer connection.
    pub fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if self.heard {
            taken.heard -= 1;
        } else {
            taken.silent.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_silent_connection_makes_room() {
        let places = Places::new(3);
        let mut first = places.take().unwrap();
        let second = places.take().unwrap();
        let third = places.take().unwrap();
        first.keep();
        let mut fourth = places.take().expect("the second is silent");
        assert!(second.evicted().is_cancelled() && !third.evicted().is_cancelled());
        // It lost its place before it spoke.
        let mut second = second;
        second.keep();
        drop(second);
        fourth.keep();
        let mut fifth = places.take().expect("the third is silent");
        assert!(third.evicted().is_cancelled());
        drop(third);
        fifth.keep();
        assert!(places.take().is_none(), "all three are heard");
        drop(first);
        let sixth = places.take().expect("one has left");
        drop((fourth, fifth, sixth));
        let taken = places.taken();
        assert_eq!((taken.silent.len(), taken.heard), (0, 0));
    }
}
