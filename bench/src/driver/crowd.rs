//! Much of the same, a few at a time.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

/// Lines of progress on standard error.
const LINES: usize = 10;

/// What became of each, in the order of their ends, and how long it took in all.
pub struct Crowd<T> {
    pub ended: Vec<T>,
    pub wall: Duration,
}

/// Begins the next one whenever one ends; none any more after `stop`, but those under way end in their own time.
pub async fn each<I, T, F>(
    what: &str,
    items: Vec<I>,
    parallel: usize,
    stop: &CancellationToken,
    run: impl Fn(I) -> F,
) -> Crowd<T>
where
    F: Future<Output = T>,
{
    let (began, total) = (Instant::now(), items.len());
    let ready = stream::iter(items).take_while(|_| async { !stop.is_cancelled() });
    let mut running = std::pin::pin!(ready.map(run).buffer_unordered(parallel));
    let mut ended = Vec::with_capacity(total);
    while let Some(one) = running.next().await {
        ended.push(one);
        if ended.len() % total.div_ceil(LINES).max(1) == 0 {
            eprintln!("{what}: {} of {total}", ended.len());
        }
    }
    Crowd { ended, wall: began.elapsed() }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn never_more_than_allowed_at_a_time() {
        let (now, most) = (Cell::new(0), Cell::new(0));
        let stop = CancellationToken::new();
        let run = |number: usize| {
            let (now, most) = (&now, &most);
            async move {
                now.set(now.get() + 1);
                most.set(now.get().max(most.get()));
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
                number
            }
        };
        let mut crowd = each("test", (0..20).collect(), 3, &stop, run).await;
        crowd.ended.sort_unstable();
        assert_eq!(crowd.ended, (0..20).collect::<Vec<_>>());
        assert_eq!(most.get(), 3);
    }

    #[tokio::test]
    async fn after_a_stop_only_those_under_way_end() {
        let stop = CancellationToken::new();
        let run = |number: usize| {
            let stop = &stop;
            async move {
                if number == 4 {
                    stop.cancel();
                }
            }
        };
        let crowd = each("test", (0..100).collect(), 2, &stop, run).await;
        assert!((5..10).contains(&crowd.ended.len()), "{}", crowd.ended.len());
    }
}
