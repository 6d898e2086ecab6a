//! Delays between two attempts at one key.

use std::time::Duration;

/// Delays between attempts at one key: doubled from `start` up to `max`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub start: Duration,
    pub max: Duration,
}

impl Backoff {
    /// Upstream's for volume operations.
    pub const VOLUME: Self = Self { start: Duration::from_millis(500), max: Duration::from_secs(122) };
    /// Upstream's for controllers: quick at first.
    pub const CONTROLLER: Self = Self { start: Duration::from_millis(5), max: Duration::from_secs(1000) };
    /// Upstream's for the sidecars (`--retry-interval-start`, `--retry-interval-max`).
    pub const SIDECAR: Self = Self { start: Duration::from_secs(1), max: Duration::from_secs(300) };

    /// The longest delay of a key that changed while its pass failed: the change may be what was missing.
    const CHANGED_MAX: Duration = Duration::from_secs(10);

    /// After so many failures in a row. A change during the pass shortens the delay but never ends it: passes that change
    /// their own key (a status, an event) and fail would otherwise follow each other without a pause.
    pub(super) fn delay(&self, failures: u32, changed: bool) -> Duration {
        let delay = self.start.saturating_mul(1u32.checked_shl(failures.min(30)).unwrap_or(u32::MAX));
        let delay = delay.min(self.max);
        if changed { delay.min(Self::CHANGED_MAX) } else { delay }
    }
}
