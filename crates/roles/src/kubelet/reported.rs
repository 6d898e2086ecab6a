//! What a pod was told about a wait, and when it is told again: the wait may outlast the event, and whoever looks later
//! has to find it. Pure.

use std::time::Duration;

/// A wait of this length is worth an event.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Upstream's longest pause between two tries of a volume operation, each of which tells.
const PAUSE_MAX: Duration = Duration::from_secs(122);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    pub text: String,
    /// By the machine's uptime, as all times here.
    pub at: Duration,
    /// How often in a row.
    pub times: u32,
}

impl Reported {
    /// After telling `text` now.
    pub fn after(previous: Option<Self>, text: String, now: Duration) -> Self {
        let times = previous.filter(|told| told.text == text).map_or(0, |told| told.times);
        Self { text, at: now, times: times.saturating_add(1) }
    }

    /// When to tell `text`: at `first`, and then again and again with growing pauses.
    pub fn due(previous: Option<&Self>, text: &str, first: Duration) -> Duration {
        let Some(told) = previous.filter(|told| told.text == text) else { return first };
        let doublings = told.times.saturating_sub(1).min(10);
        told.at.saturating_add(PATIENCE.saturating_mul(1 << doublings).min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_another_reason_is_told_at_once() {
        let at = Duration::from_secs;
        let (mut told, mut times, mut now) = (None, Vec::new(), at(10));
        while now < at(600) {
            times.push(now.as_secs());
            told = Some(Reported::after(told, "slow".into(), now));
            now = Reported::due(told.as_ref(), "slow", at(10));
        }
        assert_eq!(times, [10, 20, 40, 80, 160, 282, 404, 526]);
        assert_eq!(Reported::due(told.as_ref(), "other", at(11)), at(11));
        assert_eq!(Reported::after(told, "other".into(), at(600)).times, 1);
    }
}
