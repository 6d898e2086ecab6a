//! Many measurements of one thing, and what is said of them.

use std::time::Duration;

/// How long something took, each time it worked, and what it said when it did not.
#[derive(Debug, Clone, Default)]
pub struct Timings {
    times: Vec<Duration>,
    failures: usize,
    first_failure: Option<String>,
}

impl Timings {
    pub fn worked(&mut self, took: Duration) {
        self.times.push(took);
    }

    pub fn failed(&mut self, why: String) {
        self.failures += 1;
        self.first_failure.get_or_insert(why);
    }

    pub fn count(&self) -> usize {
        self.times.len()
    }

    pub fn failures(&self) -> usize {
        self.failures
    }

    pub fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// The time that this share of all calls stayed within; nothing where nothing worked.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * share).round() as usize).copied()
    }
}

impl FromIterator<Duration> for Timings {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        Self { times: times.into_iter().collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let of = |times: &[u64], share: f64| {
            let timings: Timings = times.iter().copied().map(Duration::from_millis).collect();
            timings.quantile(share).map(|time| time.as_millis())
        };
        assert_eq!(of(&[], 0.5), None);
        assert_eq!(of(&[7], 0.99), Some(7));
        assert_eq!(of(&[3, 1, 2], 0.5), Some(2));
        let hundred: Vec<u64> = (1..=101).rev().collect();
        assert_eq!((of(&hundred, 0.5), of(&hundred, 0.99)), (Some(51), Some(100)));
    }

    #[test]
    fn failures_are_counted_apart_and_the_first_is_kept() {
        let mut timings = Timings::default();
        timings.worked(Duration::from_millis(1));
        timings.failed("first".into());
        timings.failed("second".into());
        assert_eq!((timings.count(), timings.failures()), (1, 2));
        assert_eq!(timings.first_failure(), Some("first"));
    }
}
