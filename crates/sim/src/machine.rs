//! The machines that processes run on: each has its own clocks and can lose power.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::time::Instant;

/// The fastest that a clock drifts from the true time, in parts per million. Far more than crystals do: what depends on
/// two machines agreeing shows within minutes.
const DRIFT_MAX: i64 = 5_000;

/// Clocks and power of one machine.
pub struct Machine {
    drift: i64,
    state: Mutex<State>,
}

struct State {
    /// How far people have set the wall clock from the true time.
    off: SignedDuration,
    /// When it last started; later than now while it has no power.
    started: Instant,
}

impl Machine {
    pub fn new(seed: u64, number: usize) -> Self {
        let mut random = ChaCha12Rng::seed_from_u64(seed ^ (0xc10c << 16) ^ number as u64);
        let drift = (random.next_u64() % (2 * DRIFT_MAX as u64 + 1)) as i64 - DRIFT_MAX;
        let state = State { off: SignedDuration::ZERO, started: Instant::now() };
        Self { drift, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A person sets the wall clock.
    pub fn step(&self, by: SignedDuration) {
        self.state().off += by;
    }

    /// What the wall clock shows when the true time is `now`, `passed` after the cluster began.
    pub fn wall(&self, now: Timestamp, passed: Duration) -> Timestamp {
        let drifted = SignedDuration::from_nanos(passed.as_micros() as i64 * self.drift / 1_000);
        now.checked_add(self.state().off).and_then(|now| now.checked_add(drifted)).unwrap_or(now)
    }

    /// The time since it last started, as its own clock counts.
    pub fn uptime(&self) -> Duration {
        let true_micros = self.state().started.elapsed().as_micros() as i64;
        Duration::from_micros((true_micros + true_micros * self.drift / 1_000_000).max(0) as u64)
    }

    /// Loses power for a while.
    pub fn power_cut(&self, lasts: Duration) {
        self.state().started = Instant::now() + lasts;
    }

    /// When it has power again, if it has none.
    pub fn dark_until(&self) -> Option<Instant> {
        let started = self.state().started;
        (started > Instant::now()).then_some(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each machine has its own time, and uptime starts again with each start.
    #[tokio::test(start_paused = true)]
    async fn clocks_drift_step_and_start_again_by_themselves() {
        let machine = Machine { drift: 1_000, ..Machine::new(1, 0) };
        let second = Duration::from_secs(1);
        tokio::time::advance(1_000 * second).await;
        assert_eq!(machine.uptime(), 1_001 * second);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(machine.wall(now, 1_000 * second), now + second);
        machine.step(SignedDuration::from_hours(-1));
        assert_eq!(machine.wall(now, 1_000 * second), now - SignedDuration::from_secs(3_599));
        assert_eq!(machine.uptime(), 1_001 * second, "setting the wall clock does not change durations");
        machine.power_cut(30 * second);
        assert_eq!(machine.dark_until(), Some(Instant::now() + 30 * second));
        tokio::time::advance(40 * second).await;
        assert_eq!((machine.dark_until(), machine.uptime().as_secs()), (None, 10));
    }
}
