//! The system's clock.

use jiff::Timestamp;

use crate::Clock;

pub(super) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
