//! Pauses after failures: longer each time, never the same on two machines, short again after a while without failure.

use std::sync::Arc;
use std::time::Duration;

use bowline_host::Random;
use tokio::time::Instant;

use crate::client::line::jitter;

/// client-go's first pause of a watch. Each is stretched by up to its own length.
const FIRST: Duration = Duration::from_millis(800);
/// With the stretch, 30 seconds.
const LAST: Duration = Duration::from_secs(15);
/// Without failure for this long, the next one counts as the first.
const RESET: Duration = Duration::from_secs(120);

/// The pauses of one thing that is tried again and again.
pub struct Backoff {
    random: Arc<dyn Random>,
    next: Duration,
    failed: Option<Instant>,
}

impl Backoff {
    pub fn new(random: Arc<dyn Random>) -> Self {
        Self { random, next: FIRST, failed: None }
    }

    /// How long to wait after one more failure.
    pub fn failed(&mut self) -> Duration {
        let now = Instant::now();
        if self.failed.is_some_and(|last| now.duration_since(last) > RESET) {
            self.next = FIRST;
        }
        self.failed = Some(now);
        let pause = self.next + jitter(&*self.random, self.next);
        self.next = (self.next * 2).min(LAST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_with_jitter_and_reset_after_two_quiet_minutes() {
        let (one, two) = (bowline_host::fake::host(1).0.random, bowline_host::fake::host(2).0.random);
        let (mut one, mut two) = (Backoff::new(one), Backoff::new(two));
        let bounds =
            [(800, 1600), (1600, 3200), (3200, 6400), (6400, 12_800), (12_800, 25_600), (15_000, 30_000)];
        for (least, most) in bounds {
            let (a, b) = (one.failed(), two.failed());
            assert_ne!(a, b, "two machines do not come back at once");
            for pause in [a, b] {
                assert!(
                    pause >= Duration::from_millis(least) && pause < Duration::from_millis(most),
                    "{pause:?}"
                );
            }
        }
        tokio::time::advance(RESET + Duration::from_secs(1)).await;
        assert!(one.failed() < FIRST * 2);
    }
}
