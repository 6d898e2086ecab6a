//! The system's clocks.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::{Clock, Uptime};

pub(super) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl Uptime for RealClock {
    fn uptime(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is negative for a clock that counts from the start of the machine.
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// For callers that are no part of a running host.
pub fn now() -> Timestamp {
    RealClock.now()
}
