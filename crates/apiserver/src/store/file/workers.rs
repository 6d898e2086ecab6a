//! Whether the threads of the database run that move content from its journal to tables.
//!
//! They need room, and when they find none they end, and the database takes no write any more. On a full disk it runs
//! without them: deletes are appended to the journal, and the rest waits until there is room.

use std::path::Path;
use std::time::{Duration, Instant};

/// What a table takes that is written from memory, twice.
const LOW: u64 = 2 * super::MEMTABLE_BYTES;
/// Compactions need more. With this much free it is not room that the database lacks.
const ENOUGH: u64 = 256 << 20;
/// How long the first pause lasts at most, if there is room for a table; each one that follows a failed try is twice as
/// long. A small disk may never have more room than there was when the threads ended.
const WAIT_MIN: Duration = Duration::from_secs(10);
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// A pause of the threads, until so many bytes are free or it is time to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    until: u64,
    began: Instant,
    wait: Duration,
}

impl Pause {
    /// For a database that is about to be opened.
    pub fn before(free: u64, now: Instant) -> Option<Self> {
        (free < LOW).then_some(Self { until: 2 * LOW, began: now, wait: WAIT_MIN })
    }

    /// For a database whose threads have ended, if want of room is a likely reason. `last` is the pause that followed
    /// their last failure.
    pub fn after_failure(free: u64, last: Option<Self>, now: Instant) -> Option<Self> {
        let recent = last.filter(|last| now.duration_since(last.began) < 2 * WAIT_MAX);
        let wait = recent.map_or(WAIT_MIN, |last| (2 * last.wait).min(WAIT_MAX));
        (free < ENOUGH).then_some(Self { until: (2 * free).max(2 * LOW), began: now, wait })
    }

    pub fn is_over(self, free: u64, now: Instant) -> bool {
        let waited = now.duration_since(self.began) >= self.wait;
        free >= self.until || (waited && free >= LOW)
    }
}

/// The same for the disk of a directory.
pub fn pause_before_opening(dir: &Path) -> Option<Pause> {
    Pause::before(super::spare::free(dir), Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_with_more_room_than_it_began_with() {
        let now = Instant::now();
        assert_eq!(Pause::before(LOW, now), None);
        let pause = Pause::before(LOW - 1, now).unwrap();
        assert!(!pause.is_over(LOW, now) && pause.is_over(2 * LOW, now));
        assert_eq!(Pause::after_failure(ENOUGH, None, now), None);
        for free in [0, LOW, ENOUGH - 1] {
            let pause = Pause::after_failure(free, None, now).unwrap();
            assert!(!pause.is_over(free, now) && pause.is_over(2 * ENOUGH, now), "{free}");
        }
    }

    /// On a small disk there may never be twice as much room.
    #[test]
    fn a_pause_ends_after_a_time_that_doubles_with_each_failure() {
        let mut now = Instant::now();
        let (mut last, mut waits) = (None, Vec::new());
        for _ in 0..10 {
            let pause = Pause::after_failure(ENOUGH - 1, last, now).unwrap();
            let (early, late) = (now + pause.wait - Duration::from_millis(1), now + pause.wait);
            assert!(!pause.is_over(ENOUGH - 1, early) && pause.is_over(ENOUGH - 1, late));
            assert!(!pause.is_over(LOW - 1, late), "a try without room for a table would fail");
            waits.push(pause.wait.as_secs());
            (last, now) = (Some(pause), late);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
        let later = Pause::after_failure(0, last, now + 2 * WAIT_MAX).unwrap();
        assert_eq!(later.wait, WAIT_MIN, "another story");
    }
}
