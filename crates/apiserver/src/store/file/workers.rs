//! Whether the threads of the database run that move content from its journal to tables.
//!
//! They need room, and when they find none they end, and the database takes no write any more. On a full disk it runs
//! without them: deletes are appended to the journal, and the rest waits until there is room.

use std::path::Path;

/// What a table takes that is written from memory, twice.
const LOW: u64 = 2 * super::MEMTABLE_BYTES;
/// Compactions need more. With this much free it is not room that the database lacks.
const ENOUGH: u64 = 256 << 20;

/// A pause of the threads, until so many bytes are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    until: u64,
}

impl Pause {
    /// For a database that is about to be opened.
    pub fn before(free: u64) -> Option<Self> {
        (free < LOW).then_some(Self { until: 2 * LOW })
    }

    /// For a database whose threads have ended, if want of room is a likely reason.
    pub fn after_failure(free: u64) -> Option<Self> {
        (free < ENOUGH).then_some(Self { until: (2 * free).max(2 * LOW) })
    }

    pub fn is_over(self, free: u64) -> bool {
        free >= self.until
    }
}

/// The same for the disk of a directory.
pub fn pause_before_opening(dir: &Path) -> Option<Pause> {
    Pause::before(super::spare::free(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_with_more_room_than_it_began_with() {
        assert_eq!(Pause::before(LOW), None);
        let pause = Pause::before(LOW - 1).unwrap();
        assert!(!pause.is_over(LOW) && pause.is_over(2 * LOW));
        assert_eq!(Pause::after_failure(ENOUGH), None);
        for free in [0, LOW, ENOUGH - 1] {
            let pause = Pause::after_failure(free).unwrap();
            assert!(!pause.is_over(free) && pause.is_over(2 * ENOUGH), "{free}");
        }
    }
}
