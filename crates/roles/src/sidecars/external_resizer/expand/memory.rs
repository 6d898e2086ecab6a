//! What this process knows of its own calls for a claim: back-off, and an answer that is not written down yet.

use std::time::Duration;

use super::model::{Attempt, Outcome};

#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) refused: bool,
    pub(super) offline_only: bool,
    /// Until which uptime the size in the status is not tried again.
    pub(super) slow_until: Option<Duration>,
    pub(super) outcome: Option<Outcome>,
}

impl Record {
    pub(super) fn attempt(&self, now: Duration) -> Attempt {
        Attempt {
            refused: self.refused,
            offline_only: self.offline_only,
            slow: self.slow_until.is_some_and(|until| now < until),
            outcome: self.outcome.clone(),
        }
    }

    /// The call may have taken effect: the size in the status stays, and is asked for again.
    pub(super) fn uncertain(&mut self) {
        (self.refused, self.slow_until, self.outcome) = (false, None, None);
    }
}
