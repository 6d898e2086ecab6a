//! The system's clock.

use jiff::Timestamp;

use crate::Clock;

pub(super) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// For callers that are no part of a running host.
pub fn now() -> Timestamp {
    RealClock.now()
}
