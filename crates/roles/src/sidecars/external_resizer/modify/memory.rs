//! What this process knows of its own calls for a claim: back-off, and an answer that is not written down yet.

use std::time::Duration;

use super::model::{Attempt, Outcome};

#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) certain: bool,
    /// Until which uptime the class in the status is not tried again.
    pub(super) slow_until: Option<Duration>,
    pub(super) outcome: Option<Outcome>,
}

impl Record {
    pub(super) fn attempt(&self, now: Duration) -> Attempt {
        Attempt {
            certain: self.certain,
            slow: self.slow_until.is_some_and(|until| now < until),
            outcome: self.outcome.clone(),
        }
    }
}
